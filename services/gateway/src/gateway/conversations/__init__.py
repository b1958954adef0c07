"""/v1/conversations: conversations are read back, described, forked and deleted.

`routes` has the handlers, `threads` finds the conversation of a path, `rows` has what a caller is
shown, `description` reads what he sets, `filters` what he looks
for; `forks` begins one with the past of another.
"""

from gateway.conversations.routes import ROUTER

__all__ = ["ROUTER"]
