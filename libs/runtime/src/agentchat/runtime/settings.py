"""Fill a frozen struct of settings from environment variables and check it at the start.

A secret setting may be in a file instead, which the variable with the suffix `_FILE` names.
"""

import os
import re
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

import msgspec

from agentchat.contracts.text_checks import convert_to_utf8

T = TypeVar("T", bound=msgspec.Struct)

FILE_SUFFIX = "_FILE"


class SettingsError(Exception):
    """The process cannot start with these settings. The text is one line for stderr."""


class Setting(msgspec.Struct, frozen=True):
    """The environment variable that fills a field: `Annotated[str, Setting("NAME")]`.

    The value of a `secret` setting is never repeated in an error, and may be in the file that `file_variable`
    names.
    """

    name: str
    secret: bool = False

    @property
    def file_variable(self) -> str:
        """The variable that names a file with the value."""
        return self.name + FILE_SUFFIX


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Base of settings structs with secrets."""

    def __repr__(self) -> str:
        """Show only fields that are not secret, since a repr ends up in logs."""
        fields = msgspec.structs.fields(type(self))
        open_ones = [field.name for field in fields if not get_setting(type(self), field).secret]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in open_ones)
        return f"{type(self).__name__}({shown})"


def load(cls: type[T], environ: Mapping[str, str] = os.environ) -> T:
    """Fill `cls` from `environ`.

    An empty variable counts as unset. Tuples are comma-separated lists. `msgspec.Meta` bounds are enforced.

    Raises:
        SettingsError: Names the variable that is missing or invalid, or whose file is unreadable or empty.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        setting = get_setting(cls, field)
        text = _read_text(setting, environ)
        if text:
            values[field.name] = _parse(setting, field.type, text)
        elif field.required:
            raise SettingsError(f"{setting.name} is not set")
    return cls(**values)


def load_or_exit(cls: type[T], environ: Mapping[str, str] = os.environ) -> T:
    """Call `load` for a `__main__`: report a wrong setting in one line on stderr and exit with code 2."""
    try:
        return load(cls, environ)
    except SettingsError as error:
        refuse(error)


def refuse(error: SettingsError) -> NoReturn:
    """Report in one line on stderr why the process does not start, and exit with code 2."""
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    sys.stderr.flush()
    raise SystemExit(2)


def get_setting(cls: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Setting:
    """Return the Setting of a field. Raises TypeError if the field has none."""
    for mark in getattr(field.type, "__metadata__", ()):
        if isinstance(mark, Setting):
            return mark
    raise TypeError(f"{cls.__name__}.{field.name} has no Setting(...) in its annotation")


def _read_text(setting: Setting, environ: Mapping[str, str]) -> str:
    """Return a variable's or file's text without surrounding blanks: a file ends with a line break."""
    text = environ.get(setting.name, "").strip()
    path = environ.get(setting.file_variable, "").strip() if setting.secret else ""
    if not path:
        return text
    if text:
        raise SettingsError(f"{setting.name} and {setting.file_variable} are both set")
    try:
        text = convert_to_utf8(Path(path).read_bytes()).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{setting.file_variable} {path!r} cannot be read: {reason}") from None
    if not text:
        raise SettingsError(f"{setting.file_variable} {path!r} is empty")
    return text


def _parse(setting: Setting, kind: Any, text: str) -> Any:
    value: object = text
    if _is_tuple(kind):
        value = [part.strip() for part in text.split(",") if part.strip()]
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        shown = "" if setting.secret else f" {text!r}"
        raise SettingsError(f"{setting.name}{shown} cannot be used: {_explain(kind, error)}") from None


def _explain(kind: Any, error: msgspec.ValidationError) -> str:
    """Reword msgspec's error, which speaks of Python types, for a reader of stderr."""
    choices = _list_choices(kind)
    if choices:
        return "must be one of " + ", ".join(choices)
    reason = re.sub(r", got `\w+`", "", str(error)).replace("`", "")
    for type_name, words in _WORDS.items():
        reason = re.sub(rf"\b{type_name}\b", words, reason)
    return reason[:1].lower() + reason[1:]


_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}


def _list_choices(kind: Any) -> list[str]:
    literals = [part for part in _split_union(kind) if get_origin(part) is Literal]
    return [str(value) for literal in literals for value in get_args(literal)]


def _is_tuple(kind: Any) -> bool:
    return any(get_origin(part) is tuple for part in _split_union(kind))


def _split_union(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        return list(get_args(kind))
    return [kind]
