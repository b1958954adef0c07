"""Store knowledge bases in Postgres and find passages in them.

`importing` takes documents and files, `documents` cuts them into chunks (pure), `embedding` makes vectors,
and `search` finds the passages that fit a question and formats them for the model.
"""
