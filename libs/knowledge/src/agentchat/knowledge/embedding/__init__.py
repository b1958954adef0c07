"""Turn texts into vectors of meaning.

`embedder` is the port, `remote_embedder` calls an HTTP server, `configured_embedder` opens the embedder of
the settings, `vectors` stores and searches the vectors of chunks.
"""
