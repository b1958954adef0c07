"""Texts as vectors of meaning: `embedder` is the port, `remote` calls an HTTP server, `hashing` needs no
model, `configured` is the one of the settings, `vectors` stores the vectors of chunks.
"""
