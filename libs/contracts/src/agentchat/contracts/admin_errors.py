"""What becomes of a change that is not made, the same for every library that makes some.

AdminError
├── NotFound      what the call names is not there
├── Conflict      it exists already, or is in use
├── Invalid       a field cannot be what it is
├── Disallowed    the reason is one of the codes of `contracts.errors`
└── Unavailable   a part of the service does not answer; a repeat continues where this one ended
"""

import msgspec

from agentchat.contracts.errors import error


class Use(msgspec.Struct, frozen=True):
    """Things of one kind ("agents"), how many, and what the first few are called."""

    kind: str
    count: int
    names: tuple[str, ...] = ()


class AdminError(Exception):
    """What was requested cannot be done; the text is the reason, and can be shown."""


class NotFound(AdminError):  # noqa: N818 - outcomes, named as the API names them
    """`kind` is plan, account, key, agent, version, MCP server, knowledge base, document,
    conversation or approval.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class Conflict(AdminError):  # noqa: N818
    """`uses` are what it is in use by; empty where it exists already."""

    def __init__(self, reason: str, uses: tuple[Use, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.uses = uses

    @classmethod
    def exists(cls, kind: str, name: str) -> "Conflict":
        """The name or id is taken."""
        return cls(f"{kind} exists already: {name}")


class Invalid(AdminError):  # noqa: N818
    """`field` is a path such as `mcp_servers[0].url`, or empty for the complete value."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class Disallowed(AdminError):  # noqa: N818
    """`code` is one of `contracts.errors`."""

    def __init__(self, code: str) -> None:
        super().__init__(error(code).title.lower())
        self.code = code


class Unavailable(AdminError):  # noqa: N818
    """What was done until then is kept."""
