"""Structs that follow from others, so that a field is written once, with its bounds and its default."""

from typing import Any, Union, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import fields


class Changes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fields to change; what is left out stays."""

    def __repr__(self) -> str:
        """The names of the changed fields only: values may be secret."""
        return f"{type(self).__name__}({', '.join(self.given())})"

    def given(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in fields.items() if value is not UNSET}


def changes_of(kind: type[msgspec.Struct], *without: str, **others: Any) -> Any:
    """A base of Changes with the fields of `kind` and `others`, each of which may be left out."""
    hints = dict(_fields(kind, without)) | others
    own = [(name, Union[hint, UnsetType], UNSET) for name, hint in hints.items()]  # noqa: UP007
    return msgspec.defstruct(f"{kind.__name__}Changes", own, bases=(Changes,), frozen=True, kw_only=True)


def part_of(kind: type[msgspec.Struct], *without: str) -> Any:
    """A base with the fields of `kind` but those, with their defaults; it takes no others."""
    make: Any = msgspec.field
    default = {
        each.name: make(default=each.default, default_factory=each.default_factory) for each in fields(kind)
    }
    own = [(name, hint, default[name]) for name, hint in _fields(kind, without)]
    return msgspec.defstruct(
        f"{kind.__name__}Part", own, frozen=True, kw_only=True, forbid_unknown_fields=True
    )


def shown_of(base: type[msgspec.Struct], kind: type[msgspec.Struct], **instead: Any) -> Any:
    """A base with the fields of `base`, then those of `kind`, none of which is ever left out.

    `instead` has other types of fields, and other fields.
    """
    own = dict(_fields(kind, ())) | instead
    return msgspec.defstruct(f"{kind.__name__}Shown", own.items(), bases=(base,), frozen=True, kw_only=True)


def _fields(kind: type[msgspec.Struct], without: tuple[str, ...]) -> list[tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(name, hints[name]) for name in kind.__struct_fields__ if name not in without]
