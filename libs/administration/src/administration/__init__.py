"""What an administrator may do, once, behind both doors: `/admin/v1` on the gateway and `agentchat admin`.

Each module is one kind of thing; its functions take an `Admin` (with what, and for whom) and the structs of
`values`, and raise AdminError. Every change leaves an audit row in its own transaction.
"""

from administration.admin import Admin

__all__ = ["Admin"]
