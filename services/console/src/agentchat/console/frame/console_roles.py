"""Define the roles of people in the console.

Each handler names the least role it needs: `@get("/now", role=Role.VIEWER)`. A handler with `role=None` is
for anyone, signed in or not.
"""

import enum
from collections.abc import Mapping

import msgspec

RoleTable = Mapping[str, "Role | None"]
"""The least role by method and path, such as `POST /agents/{agent_id}`; None: anyone."""

KEY = "role"
"""The key of the role in a handler's options."""


class Role(enum.IntEnum):
    """A role of a person. Each role includes the roles before it."""

    VIEWER = 1
    """May read."""
    APPROVER = 2
    """May decide approvals."""
    OPERATOR = 3
    """May use playground and what-if, resend webhooks, change agents, tool servers and knowledge."""
    OWNER = 4
    """May change accounts, plans and keys, delete, and read the audit log."""

    @property
    def word(self) -> str:
        """The name in settings, pages and the database."""
        return self.name.lower()


class Rights(msgspec.Struct, frozen=True):
    """The rights of a role; None is a person who is not signed in."""

    role: Role | None
    table: RoleTable

    def __call__(self, route: str) -> bool:
        """Return True if the role may use a route. Templates call it as `may("POST /accounts")`."""
        needed = self.table[route]
        return needed is None or (self.role is not None and self.role >= needed)
