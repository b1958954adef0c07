"""The description of the HTTP API: an OpenAPI 3.1 document, generated from the handlers.

`described` is what guards, providers and handlers say next to their types, `generated` makes operations of
it, `answers` those of refusals, `schemas` the components, `document` the whole. `gateway.docs` serves it.
"""
