"""DirectoryError
├── NotFound    no such plan, account, key or agent (or another account's)
├── Conflict    it exists already, or is still in use
└── Invalid     a field cannot be what it is
SealBroken is apart: it means wrong key material or tampering, not wrong input.
"""


class DirectoryError(Exception):
    """What an administrator asked for cannot be done; the text says why, in words fit to be shown."""


class NotFound(DirectoryError):  # noqa: N818 - outcomes, named as the API names them
    """`kind` is plan, account, key or agent."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class Conflict(DirectoryError):  # noqa: N818
    """`kind` and `name` are taken, or `reason` says what else is in the way."""

    def __init__(self, kind: str, name: str, reason: str = "exists already") -> None:
        super().__init__(f"{kind} {reason}: {name}")
        self.kind = kind
        self.name = name


class Invalid(DirectoryError):  # noqa: N818
    """`field` is a path such as `mcp_servers[0].url`."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason


class SealBroken(Exception):  # noqa: N818
    """Sealed bytes were changed, belong to another owner, or were sealed under a key that is not at hand."""
