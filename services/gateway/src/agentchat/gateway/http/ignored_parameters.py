"""Name the parameters of a body that have no effect; `RequestContext` sends X-Ignored-Parameters.

Clients of other protocols send fields that an agent decides itself, such as `temperature`.
"""

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

MAX_NAMES = 32

_SENDABLE = re.compile(r"[!-+\--~]{1,64}")  # visible ASCII without a comma
_EMPTY = re.compile(rb'null|""|\[\s*\]|\{\s*\}')
_fields_of = msgspec.json.Decoder(dict[str, msgspec.Raw])


def list_ignored_parameters(kind: Any, body: bytes) -> list[str]:
    """List the fields of a JSON object that `kind` does not have, as `name` or `name.part`, in order.

    Fields that ask for nothing are left out: null, "", [] and {}.
    """
    known = _list_fields(kind)
    if known is None:
        return []
    ignored: list[str] = []
    for name, value in _fields_of.decode(body).items():
        if name not in known:
            if not _EMPTY.fullmatch(bytes(value)):
                ignored.append(name)
        elif (parts := known[name]) is not None and bytes(value).startswith(b"{"):
            ignored += [f"{name}.{part}" for part in list_ignored_parameters(parts, bytes(value))]
    return [name for name in ignored if _SENDABLE.fullmatch(name)][:MAX_NAMES]


@cache
def _list_fields(kind: Any) -> dict[str, Any] | None:
    """Return the fields of a struct, each with the struct that it holds; None if others are refused."""
    found = inspect.type_info(kind)
    while isinstance(found, inspect.Metadata):
        found = found.type
    if not isinstance(found, inspect.StructType) or found.forbid_unknown_fields:
        return None
    return {field.encode_name: _find_struct(field.type) for field in found.fields}


def _find_struct(kind: inspect.Type) -> Any:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        return next((struct for each in kind.types if (struct := _find_struct(each)) is not None), None)
    return kind.cls if isinstance(kind, inspect.StructType) else None
