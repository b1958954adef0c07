"""Texts as vectors of meaning.

`embedder` is the port, `remote` calls an HTTP server, `configured` is the embedder of the settings, `vectors`
stores the vectors of chunks.
"""
