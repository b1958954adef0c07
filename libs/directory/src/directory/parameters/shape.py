"""What the providers' tables of parameters have in common: how a name and a shape are checked and refused."""

import difflib
from collections.abc import Mapping, Set
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from contracts.admin_errors import Invalid

DEFAULT_MAX_TOKENS = 4096
"""What a call asks for where the agent does not say."""

MOST = 2**31 - 1  # more than any model takes, and what every client and server can count to

Fraction = Annotated[float, Meta(ge=0, le=1)]

T = TypeVar("T", bound=msgspec.Struct)


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Of this shape and no other."""


def check_name(
    name: str, table: type[msgspec.Struct], *, ours: Set[str], elsewhere: Mapping[str, str]
) -> None:
    """`ours` the service says itself; `elsewhere` says why a name of the provider's cannot be set here.

    Raises Invalid.
    """
    if name in ours:
        raise Invalid(f"parameters.{name}", "is set by the service")
    if name in elsewhere:
        raise Invalid(f"parameters.{name}", elsewhere[name])
    known = table.__struct_fields__
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise Invalid(f"parameters.{name}", f"is no parameter of the provider; {hint}")


def converted(parameters: dict[str, Any], table: type[T]) -> T:
    """The parameters as a provider's table has them. Raises Invalid, with the field's path."""
    try:
        return msgspec.convert(parameters, table)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        raise Invalid(f"parameters{path.rstrip('`')}", _plainly(reason)) from None


def _plainly(reason: str) -> str:
    """msgspec's words without its quotation marks, and a pattern said in words."""
    if "matching regex" in reason:
        return "must hold more than blanks"
    return reason.replace("`", "").replace("Object contains", "holds")
