"""Define why a change was refused; every library that changes something raises these.

AdminError ├── NotFound      the named thing does not exist ├── Conflict      it exists already or is in use
├── Invalid       a field has an invalid value ├── Disallowed    the reason is one of the codes of
`contracts.errors` └── Unavailable   a part of the service does not answer; repeating the call continues where
it stopped
"""

import msgspec

from agentchat.contracts.errors import get_error_code


class Use(msgspec.Struct, frozen=True):
    """Things of one kind ("agents") that use something: how many, and the first few names."""

    kind: str
    count: int
    names: tuple[str, ...] = ()


class AdminError(Exception):
    """A change could not be made. The text is the reason and can be shown."""


class NotFound(AdminError):  # noqa: N818 - outcomes, named as the API names them
    """The named thing does not exist.

    `kind` is plan, account, key, agent, version, MCP server, knowledge base, document, conversation or
    approval.
    """

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class Conflict(AdminError):  # noqa: N818
    """The thing is in use (`uses` says by what), or it exists already (`uses` is empty)."""

    def __init__(self, reason: str, uses: tuple[Use, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.uses = uses

    @classmethod
    def from_existing(cls, kind: str, name: str) -> "Conflict":
        """Build the error for a name or id that is taken."""
        return cls(f"{kind} exists already: {name}")


class Invalid(AdminError):  # noqa: N818
    """A field has an invalid value.

    `field` is a path such as `mcp_servers[0].url`, or empty for the whole value.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


class Disallowed(AdminError):  # noqa: N818
    """The service does not allow the change. `code` is one of `contracts.errors`; `reason` is a sentence."""

    def __init__(self, code: str, reason: str | None = None) -> None:
        super().__init__(reason or get_error_code(code).title.lower())
        self.code = code
        self.reason = reason


class Unavailable(AdminError):  # noqa: N818
    """A part of the service does not answer. What was done before that is kept."""
