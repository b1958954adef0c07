"""Define the roles of people in the console.

Each handler names the least role it needs: `@get("/now", role=Role.VIEWER)`. A handler with `role=None` is
for anyone, signed in or not.
"""

from collections.abc import Collection, Mapping

import msgspec

from agentchat.directory.named_tokens import Role as Role

RoleTable = Mapping[str, Role | None]
"""The least role by method and path, such as `POST /agents/{agent_id}`; None: anyone."""

FILTERED = "filtered"
"""The key, in a handler's options, of True for lists that show a limited person only their own accounts."""

KEY = "role"
"""The key of the role in a handler's options."""


class Rights(msgspec.Struct, frozen=True):
    """The rights of a role; None is a person who is not signed in.

    `closed` are routes that the person may not use whatever the role, being limited to some accounts.
    """

    role: Role | None
    table: RoleTable
    closed: Collection[str] = ()

    def __call__(self, route: str) -> bool:
        """Return True if the role may use a route. Templates call it as `may("POST /accounts")`."""
        needed = self.table[route]
        if route in self.closed:
            return False
        return needed is None or (self.role is not None and self.role >= needed)
