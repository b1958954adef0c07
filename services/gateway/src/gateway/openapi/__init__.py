"""The description of the HTTP API: an OpenAPI 3.1 document, generated from the handlers.

`described` is what guards, providers and handlers carry next to their types, `generated` makes operations of
it, `document` the document. `gateway.docs` serves it.
"""
