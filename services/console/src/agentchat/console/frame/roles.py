"""Who may do what. Each handler names the least role that it needs: `@get("/now", role=Role.VIEWER)`.

One that anybody may ask, signed in or not, has `role=None`.
"""

import enum
from collections.abc import Mapping

import msgspec

RoleTable = Mapping[str, "Role | None"]
"""The least role by method and path, such as `POST /agents/{agent_id}`; None: anybody."""

KEY = "role"
"""Under it a handler's options have its role."""


class Role(enum.IntEnum):
    """Each may do what those before it may."""

    VIEWER = 1
    """Reads."""
    APPROVER = 2
    """Decides approvals."""
    OPERATOR = 3
    """Tries, sends again, changes agents, tool servers and knowledge."""
    OWNER = 4
    """Changes accounts, plans and keys, deletes, reads the audit log."""

    @property
    def word(self) -> str:
        return self.name.lower()


class Rights(msgspec.Struct, frozen=True):
    """What somebody with a role may use; None: who is not signed in."""

    role: Role | None
    table: RoleTable

    def __call__(self, route: str) -> bool:
        """Whether a route of the table is for them; templates ask it as `may("POST /accounts")`."""
        needed = self.table[route]
        return needed is None or (self.role is not None and self.role >= needed)
