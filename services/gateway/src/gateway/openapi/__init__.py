"""The description of the HTTP API: an OpenAPI 3.1 document from the types that the endpoints use, and a page.

`operations` holds what an operation is, `answers` what it may answer, `schemas` the components; `chat`,
`conversations` and `plain` are the addresses, `document` is the whole of it, and `page` the whole for people.
"""

from gateway.openapi.document import document
from gateway.openapi.page import HEADERS as PAGE_HEADERS
from gateway.openapi.page import page

__all__ = ["PAGE_HEADERS", "document", "page"]
