"""Options of a command from the fields of a struct, and the JSON object that they make."""

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET
from msgspec import inspect as types

from ops.errors import SetupError

Given = dict[str, Any]
"""The values of options by their names; None where an option was not given."""

_SECRETS = frozenset({"provider_key", "client_secret"})
_FLAGS = {"allowed_tools": "--allow", "headers": "--header"}
_ABOUT = {
    "allowed_tools": ("TOOL|all", "Only this tool; may be repeated."),
    "headers": ("'Name: @env:VARIABLE'|none", "Or 'Name: @file:PATH'; may be repeated."),
    "client_secret": (
        "@env:VARIABLE|@file:PATH|@ask|none",
        "Never the secret itself: arguments can be seen.",
    ),
    "provider_key": ("@env:VARIABLE|@file:PATH|@ask|none", "Never the key itself: arguments can be seen."),
}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a struct: its options, and `take` for its value, which is UNSET where none is given."""

    name: str
    options: tuple[inspect.Parameter, ...]
    take: Callable[[Given], Any]


def fields_of(kind: type, without: Sequence[str], positional: Sequence[str]) -> list[Field]:
    """The positional ones first, in their order."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    by_name = {field.name: field for field in info.fields if field.name not in without}
    first = [_positional(by_name.pop(name)) for name in positional]
    return first + [_by_type(field) for field in by_name.values()]


def body_of(fields: Sequence[Field], given: Given) -> Given:
    """The fields that were given. Raises SetupError, typer.BadParameter."""
    found = {field.name: field.take(given) for field in fields}
    return {name: value for name, value in found.items() if value is not UNSET}


def read_object(text: str, named: str) -> Given:
    """Raises SetupError, without the text: it may hold secrets."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{named} is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise SetupError(f"{named} must be a JSON object")
    return value


def option(name: str, kind: Any, *flags: str, **about: Any) -> inspect.Parameter:
    """An option of a command, None where it is not given."""
    hint = Annotated[kind | None, typer.Option(*flags, **about)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def argument(name: str, metavar: str, kind: Any = str) -> inspect.Parameter:
    hint = Annotated[kind, typer.Argument(metavar=metavar)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint)


def flag(name: str) -> str:
    """`--knowledge-base` for `knowledge_base_id`."""
    short = name if name == "id" else name.removesuffix("_id")
    return _FLAGS.get(name, f"--{short.replace('_', '-')}")


def _positional(field: types.Field) -> Field:
    metavar = field.name.removesuffix("_id").upper()
    return Field(
        name=field.name, options=(argument(field.name, metavar),), take=lambda given: given[field.name]
    )


def _by_type(field: types.Field) -> Field:
    """One option, for a struct one for each of its fields; a list of structs is in JSON alone.

    Any struct but one with one required field is an option of its own, in JSON.
    """
    name, kind = field.name, field.type
    if isinstance(kind, types.Metadata):  # its words and its schema for the API
        kind = kind.type
    parts = kind.types if isinstance(kind, types.UnionType) else (kind,)
    plain, *others = (part for part in parts if not isinstance(part, types.NoneType))
    if others:
        return _word_or_object(name, next(part for part in parts if isinstance(part, types.LiteralType)))
    nullable = len(parts) > 1
    metavar, about = _ABOUT.get(name, (None, None))
    match plain:
        case types.StructType() if sum(field.required for field in plain.fields) == 1:
            return _nested(name, plain)
        case types.VarTupleType(item_type=types.StructType()):
            return Field(name=name, options=(), take=lambda _: UNSET)
        case types.BoolType():
            off = "--enabled" if name == "disabled" else f"--no-{flag(name)[2:]}"
            made = option(name, bool, f"{flag(name)}/{off}")
        case types.IntType() if not nullable:
            made = option(name, int, flag(name), min=plain.ge, max=plain.le)
        case types.VarTupleType() | types.DictType(value_type=types.StrType()):
            made = option(name, list[str], flag(name), metavar=metavar, help=about)
        case _:
            metavar = metavar or _metavar(plain) + ("|none" if nullable else "")
            made = option(name, str, flag(name), metavar=metavar, help=about)
    return Field(name=name, options=(made,), take=lambda given: _value(plain, nullable, name, given[name]))


def _word_or_object(name: str, words: types.LiteralType) -> Field:
    """A field that is one of some words, or an object."""

    def take(given: Given) -> Any:
        value = given[name]
        if value is None or value in words.values:
            return UNSET if value is None else value
        return read_object(text_of(value, flag(name)), flag(name))

    metavar = "|".join([*map(str, words.values), "JSON", "@file:PATH"])
    return Field(name=name, options=(option(name, str, flag(name), metavar=metavar),), take=take)


def _metavar(kind: types.Type) -> str:
    match kind:
        case types.IntType():
            return "N"
        case types.LiteralType():
            return "|".join(map(str, kind.values))
        case types.DictType() | types.StructType():
            return "JSON|@file:PATH"
        case _:
            return "TEXT|@file:PATH"


def _value(kind: types.Type, nullable: bool, name: str, value: Any) -> Any:
    match kind, value:
        case _, None:
            return UNSET
        case types.VarTupleType(), _:
            return None if value == ["all"] else value
        case types.DictType(), list():
            return {} if value == ["none"] else headers_of(value)
        case _, "none" if nullable:
            return None
        case types.IntType(), str():
            return _number(value)
        case types.DictType() | types.StructType(), _:
            return read_object(text_of(value, flag(name)), flag(name))
        case _, str():
            return text_of(value, flag(name), secret=name in _SECRETS)
        case _:
            return value


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a whole number nor `none`") from None


def _nested(name: str, kind: types.StructType) -> Field:
    """An option for each field of the struct; `none` for its required field makes the struct null."""
    inner = [_by_type(field) for field in kind.fields]
    (needed,) = (field.name for field in kind.fields if field.required)

    def take(given: Given) -> Any:
        found = body_of(inner, given)
        others = [each for each in found if each != needed]
        if others and found.get(needed) in (None, "none"):
            raise SetupError(f"{flag(others[0])} needs {flag(needed)}")
        return None if found.get(needed) == "none" else found or UNSET

    return Field(name=name, options=tuple(each for field in inner for each in field.options), take=take)


_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(@.+)")


def text_of(given: str, name: str, *, secret: bool = False) -> str:
    """The value that an option stands for, which may be @env:VARIABLE, @file:PATH (`-`: stdin) or @ask.

    A secret must not be written out: every user of the machine can read arguments in the list of processes,
    and they stay in the shell's history. Raises SetupError with the `name` and without the value.
    """
    source, _, where = given.partition(":")
    match source:
        case "@env":
            value = os.environ.get(where, "").strip()
            if not value:
                raise SetupError(f"{name}: the variable {where} is not set")
            return value
        case "@file":
            return read_file(where).strip()
        case "@ask":
            if not sys.stdin.isatty():
                raise SetupError(f"{name}: there is no terminal to ask on; name a variable or a file")
            return str(typer.prompt(name, hide_input=True, err=True)).strip()
    if secret:
        raise SetupError(
            f"{name}: write @env:VARIABLE, @file:PATH or @ask; a value in an argument would show in the list "
            "of processes"
        )
    return given


def read_file(path: str) -> str:
    """The text of a file in UTF-8; `-` is standard input. Raises SetupError."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return content.decode()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise SetupError(f"{path} is not UTF-8 (at byte {error.start})") from None


def headers_of(given: Iterable[str]) -> dict[str, str]:
    """`Name: @env:VARIABLE` or `Name: @file:PATH`, by name. Raises SetupError, without the value."""
    values: dict[str, str] = {}
    for each in given:
        found = _HEADER.fullmatch(each.strip())
        name = found[1] if found else each.partition(":")[0][:60]
        values[name] = text_of(found[2] if found else "", f"header {name!r}", secret=True)
    return values
