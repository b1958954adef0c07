"""Knowledge bases in Postgres: documents, the chunks they are cut into, and the search for passages.

- `documents`: parses files and cuts them into chunks (pure)
- `importing`: documents and files into a knowledge base
- `embedding`: texts as vectors, by an embedder of the deployment's settings
- `search`: the passages that fit a question; `prompt`: how passages reach the model (pure)
- `audit`: where an import is written down; what is managed by hand is in the library `administration`
- `migrations`: the tables
"""
