"""Knowledge bases in Postgres: `importing` takes documents and files, `documents` cuts them into chunks
(pure), `embedding` makes vectors, `search` finds the passages that fit a question, `passages_prompt` gives
them to the model.
"""
