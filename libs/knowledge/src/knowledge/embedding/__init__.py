"""Texts as vectors of meaning.

- `embedder`: the port; `remote`: an embedder behind HTTP; `hashing`: one without a model
- `configured`: the embedder that a deployment's settings name
- `vectors`: the vectors of chunks in the tables
"""
