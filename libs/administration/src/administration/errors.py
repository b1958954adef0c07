"""AdminError
├── NotFound      what the call names is not there
├── Conflict      it exists already, or is in use
├── Invalid       fields cannot be what they are
└── Unavailable   a part of the service does not answer; a repeat goes on where this one ended
"""

import contextlib
from collections.abc import Iterator

import msgspec

from administration.values import Use
from bus import BusUnavailable
from conversations.errors import StoreUnavailable
from directory import errors as directory
from knowledge import errors as knowledge


class AdminError(Exception):
    """What was asked for cannot be done; the text says why, in words fit to be shown."""


class NotFound(AdminError):  # noqa: N818 - outcomes, named as the API names them
    """`kind` is plan, account, key, agent, version, MCP server, knowledge base, document or conversation."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no such {kind}: {name}")
        self.kind = kind
        self.name = name


class Conflict(AdminError):  # noqa: N818
    """`uses` says by what it is in use; empty where it exists already."""

    def __init__(self, reason: str, uses: tuple[Use, ...] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.uses = uses


class WrongField(msgspec.Struct, frozen=True):
    """`field` is a path such as `mcp_servers[0].url`, or empty for the whole."""

    field: str
    reason: str


class Invalid(AdminError):  # noqa: N818
    """Which fields, and why."""

    def __init__(self, *fields: WrongField) -> None:
        super().__init__(
            "; ".join(f"{each.field}: {each.reason}" if each.field else each.reason for each in fields)
        )
        self.fields = fields

    @classmethod
    def of(cls, field: str, reason: str) -> "Invalid":
        """For one field."""
        return cls(WrongField(field, reason))


class Unavailable(AdminError):  # noqa: N818
    """What was done until then is kept."""


_UNOPENED = "the agent's secrets were sealed under another secret key; give its headers anew"


@contextlib.contextmanager
def outcomes() -> Iterator[None]:
    """Errors of the libraries below as ours."""
    try:
        yield
    except (directory.NotFound, knowledge.NotFound) as error:
        raise NotFound(error.kind, error.name) from None
    except (directory.Invalid, knowledge.Invalid) as error:
        raise Invalid.of(error.field, error.reason) from None
    except (directory.Conflict, knowledge.Conflict) as error:
        raise Conflict(str(error)) from None
    except directory.SealBroken:
        raise Conflict(_UNOPENED) from None
    except (BusUnavailable, StoreUnavailable) as error:
        raise Unavailable(f"a part of the service does not answer: {error}") from error
