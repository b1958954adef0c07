"""Documents into a knowledge base.

- `importer`: one document into the tables
- `files`: files as drafts; `drafts`: a document as it is handed in, and cut (pure); `tables`: it as rows
"""
