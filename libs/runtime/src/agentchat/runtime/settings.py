"""Settings: a frozen struct, filled from environment variables and checked at the start.

A secret one may be in a file instead, which the variable with `_FILE` at its end names.
"""

import os
import re
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

FILE_SUFFIX = "_FILE"


class SettingsError(Exception):
    """The process cannot start as it is set up; the text is one line, meant for stderr."""


class Setting(msgspec.Struct, frozen=True):
    """Marks a field with the environment variable that fills it: `Annotated[str, Setting("NAME")]`.

    The value of a `secret` one is never repeated in an error, and the file in `file_variable` may hold it.
    """

    name: str
    secret: bool = False

    @property
    def file_variable(self) -> str:
        return self.name + FILE_SUFFIX


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What settings with secrets inherit."""

    def __repr__(self) -> str:
        """The fields that are not secret: a repr ends in logs."""
        fields = msgspec.structs.fields(type(self))
        open_ones = [field.name for field in fields if not setting_of(type(self), field).secret]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in open_ones)
        return f"{type(self).__name__}({shown})"


def load(cls: type[T], environ: Mapping[str, str] = os.environ) -> T:
    """Fill `cls` from `environ`.

    An empty variable counts as unset. Tuples are comma lists. `msgspec.Meta` bounds are enforced.
    Raises SettingsError, naming the variable, where one without a default is unset, one cannot be used, or
    the file of one cannot be read or holds nothing.
    """
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(cls):
        setting = setting_of(cls, field)
        text = _text_of(setting, environ)
        if text:
            values[field.name] = _parse(setting, field.type, text)
        elif field.required:
            raise SettingsError(f"{setting.name} is not set")
    return cls(**values)


def load_or_exit(cls: type[T], environ: Mapping[str, str] = os.environ) -> T:
    """`load` for a `__main__`: a wrong setting is one line on stderr and exit code 2."""
    try:
        return load(cls, environ)
    except SettingsError as error:
        refuse(error)


def refuse(error: SettingsError) -> NoReturn:
    """Say on stderr why the process does not start, in one line, and end it with exit code 2."""
    sys.stderr.write(" ".join(str(error).split()) + "\n")
    sys.stderr.flush()
    raise SystemExit(2)


def setting_of(cls: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Setting:
    """What fills a field of a settings struct. Raises TypeError where nothing does."""
    for mark in getattr(field.type, "__metadata__", ()):
        if isinstance(mark, Setting):
            return mark
    raise TypeError(f"{cls.__name__}.{field.name} has no Setting(...) in its annotation")


def _text_of(setting: Setting, environ: Mapping[str, str]) -> str:
    """Without blanks around it: a file ends with a line break."""
    text = environ.get(setting.name, "").strip()
    path = environ.get(setting.file_variable, "").strip() if setting.secret else ""
    if not path:
        return text
    if text:
        raise SettingsError(f"{setting.name} and {setting.file_variable} are both set")
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
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
        raise SettingsError(f"{setting.name}{shown} cannot be used: {_reason(kind, error)}") from None


def _reason(kind: Any, error: msgspec.ValidationError) -> str:
    """msgspec speaks of Python types; a reader of stderr wants to know what would do."""
    choices = _choices(kind)
    if choices:
        return "must be one of " + ", ".join(choices)
    reason = re.sub(r", got `\w+`", "", str(error)).replace("`", "")
    for type_name, words in _WORDS.items():
        reason = re.sub(rf"\b{type_name}\b", words, reason)
    return reason[:1].lower() + reason[1:]


_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "text"}


def _choices(kind: Any) -> list[str]:
    literals = [part for part in _parts(kind) if get_origin(part) is Literal]
    return [str(value) for literal in literals for value in get_args(literal)]


def _is_tuple(kind: Any) -> bool:
    return any(get_origin(part) is tuple for part in _parts(kind))


def _parts(kind: Any) -> list[Any]:
    if get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        return list(get_args(kind))
    return [kind]
