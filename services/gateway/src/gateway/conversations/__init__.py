"""/v1/conversations: conversations are read back and deleted.

`routes` has the handlers, `threads` finds the conversation of a path, `rows` has what a caller is shown.
"""

from gateway.conversations.routes import ROUTER

__all__ = ["ROUTER"]
