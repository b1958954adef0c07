"""Forms made of a JSON Schema: of a body of the administration, of a tool's input, of an elicitation."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec
from litestar.datastructures import FormMultiDict

from agentchat.administration.checked_input import converted
from agentchat.console.frame.filters import json_text
from agentchat.contracts.admin_errors import AdminError, Conflict, Invalid

S = TypeVar("S")

FieldKind = Literal[
    "line", "text", "number", "flag", "choice", "several", "lines", "json", "secret", "hidden"
]
"""How a value is asked for: `lines` is a list of texts, one a line; `several` are check boxes."""

_MADE_OF = "made_of"
_MARK_CHARACTERS = 8

_LONG_TEXT = 500
_MOST_NUMBER = 2**63
_MOST_REFERENCES = 20
"""A schema that a tool's server made may refer to itself."""

_YES_NO = {"true": True, "false": False}


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is the text shown, `values` are the boxes checked; `problem` is what is wrong with it."""

    name: str
    label: str
    kind: FieldKind
    required: bool = False
    note: str = ""
    choices: tuple[str, ...] = ()
    value: str = ""
    values: tuple[str, ...] = ()
    problem: str = ""


class SchemaForm:
    """The form of an object's schema, without the properties `leave_out`.

    With `blank_is_empty`, a text, list or object that is left blank is the empty one, else it is not given.
    `secrets` are never shown, and not given where they are left blank.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        leave_out: Collection[str] = (),
        secrets: Collection[str] = (),
        blank_is_empty: bool = False,
    ) -> None:
        self._defs = _mapping(schema.get("$defs"))
        top, _ = self._resolved(schema)
        self._required = frozenset(map(str, _list(top.get("required"))))
        self._properties = {
            name: self._resolved(each)
            for name, each in _mapping(top.get("properties")).items()
            if name not in leave_out
        }
        self._secrets = secrets
        self._blank_is_empty = blank_is_empty

    def fields(
        self, values: Mapping[str, Any], given: FormMultiDict | None = None, problem: Invalid | None = None
    ) -> tuple[FormField, ...]:
        """Filled with `values`, or with what was `given`, so that a form that was refused loses nothing."""
        return tuple(self._field(name, values, given, problem) for name in self._properties)

    def filled(
        self, shown: msgspec.Struct | None, refused: "RefusedForm | None" = None
    ) -> tuple[FormField, ...]:
        """Return the fields filled with `shown`, or with the form that was refused if it was this one."""
        values: Mapping[str, Any] = {} if shown is None else msgspec.to_builtins(shown)
        if refused is None or self._properties.keys().isdisjoint(refused.given.keys()):
            fields = self.fields(values)
        else:
            fields = self.fields(values, refused.given, refused.problem)
        marks = ".".join(self._marks(values))
        return (*fields, FormField(name=_MADE_OF, label="", kind="hidden", value=marks))

    def read(self, given: FormMultiDict) -> dict[str, Any]:
        """The object that a form gives. Raises Invalid."""
        read = {name: self._read(name, given) for name in self._properties}
        return {name: value for name, value in read.items() if value is not msgspec.UNSET}

    def changed(self, given: FormMultiDict, values: Mapping[str, Any]) -> dict[str, Any]:
        """What of it differs from `values`. Raises Invalid, and Conflict where somebody has changed these
        since the form was made of them: to save it would undo that.
        """
        made_of, now = str(given.get(_MADE_OF, "")).split("."), self._marks(values)
        if len(made_of) == len(now) and made_of != now:
            changed = ", ".join(
                self._label(name)
                for name, *marks in zip(self._properties, made_of, now, strict=True)
                if marks[0] != marks[1]
            )
            raise Conflict(
                f"{changed} was changed by somebody else since you opened this page. "
                "What you wrote is below; saved once more, it takes the place of theirs"
            )
        return {
            name: value
            for name, value in self.read(given).items()
            if name not in values or _encoded(values[name]) != _encoded(value)
        }

    def _marks(self, values: Mapping[str, Any]) -> list[str]:
        """Of each value that is shown, so that a form tells which have been changed since."""
        shown = (None if name in self._secrets else values.get(name) for name in self._properties)
        return [hashlib.sha256(_encoded(each)).hexdigest()[:_MARK_CHARACTERS] for each in shown]

    def _label(self, name: str) -> str:
        schema, _ = self._properties[name]
        words = name.replace("_", " ")
        return str(schema.get("title") or words[:1].upper() + words[1:])

    def edited(self, given: FormMultiDict, values: Mapping[str, Any]) -> dict[str, Any]:
        """The `values` with what was changed in their form. What was left as it was shown stays as it is, to
        the byte: also what a form cannot hold, and properties that the schema does not name. Raises Invalid.
        """
        edited = dict(values)
        for shown in self.fields(values):
            sent = self._field(shown.name, values, given, None)
            if sent.values == shown.values and _unix(sent.value) == _unix(shown.value):
                continue
            read = self._read(shown.name, given)
            if read is msgspec.UNSET:
                edited.pop(shown.name, None)
            else:
                edited[shown.name] = read
        return edited

    def _field(
        self, name: str, values: Mapping[str, Any], given: FormMultiDict | None, problem: Invalid | None
    ) -> FormField:
        schema, nullable = self._properties[name]
        kind = self._kind(name)
        choices = tuple(_words(schema) if kind == "json" else _choices(schema))
        if kind == "choice" and (nullable or name not in self._required):
            choices = ("", *choices)
        value = values.get(name, schema.get("default"))
        shown = "" if kind == "secret" else _shown(kind, value, choices)
        if kind == "line" and "\n" in shown:
            kind = "text"  # a line would lose them
        if kind == "choice" and shown not in choices:
            choices = (*choices, shown)
        return FormField(
            name=name,
            label=self._label(name),
            kind=kind,
            required=name in self._required,
            note=str(schema.get("description") or ""),
            choices=choices,
            value=shown if given is None or kind in ("flag", "secret") else str(given.get(name, "")),
            values=_checked(name, kind, value, given),
            problem=problem.reason if problem and _names(problem.field, name) else "",
        )

    def _kind(self, name: str) -> FieldKind:
        schema, nullable = self._properties[name]
        if name in self._secrets:
            return "secret"
        items, _ = self._resolved(schema.get("items", {}))
        match schema.get("type"):
            case "array":
                return "several" if _choices(items) else "lines" if items.get("type") == "string" else "json"
            case "boolean":
                return "choice" if nullable else "flag"
            case _ if _choices(schema):
                return "choice"
            case "integer" | "number":
                return "number"
            case "string":
                longest = schema.get("maxLength")
                is_long = isinstance(longest, int) and longest > _LONG_TEXT
                return "text" if is_long and "url" not in name else "line"
            case _:
                return "json"

    def _read(self, name: str, given: FormMultiDict) -> Any:
        schema, nullable = self._properties[name]
        kind = self._kind(name)
        if kind == "flag":
            return name in given
        if kind == "several":
            return list(given.getall(name, []))
        if name not in given:
            return msgspec.UNSET
        text = str(given[name]).replace("\r\n", "\n")
        if not text.strip():
            return self._blank(name, kind, nullable)
        match kind:
            case "number":
                return _number(name, text)
            case "choice":
                return _choices(schema).get(text, text)
            case "lines":
                return [line.strip() for line in text.split("\n") if line.strip()]
            case "secret" if schema.get("type") == "object":
                return _json(name, text)
            case "json":
                return text.strip() if text.strip() in _words(schema) else _json(name, text)
            case _:
                return text

    def _blank(self, name: str, kind: FieldKind, nullable: bool) -> Any:
        if kind == "secret":
            return msgspec.UNSET
        if nullable:
            return None
        if kind in ("line", "text") and (self._blank_is_empty or name in self._required):
            return ""
        if self._blank_is_empty and kind in ("lines", "json"):
            schema, _ = self._properties[name]
            return {"array": [], "object": {}}.get(str(schema.get("type")), msgspec.UNSET)
        return msgspec.UNSET

    def _resolved(self, schema: Any, references: int = 0) -> tuple[Mapping[str, Any], bool]:
        """The schema behind a reference and next to null, and whether it may be null. One that says nothing
        is that of any value: `true`, or one that refers to itself.
        """
        if not isinstance(schema, Mapping) or references > _MOST_REFERENCES:
            return {}, False
        if "$ref" in schema:
            found = self._defs.get(str(schema["$ref"]).rpartition("/")[2], {})
            return self._resolved(found, references + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list) and "null" in kinds and len(kinds) == 2:
            (kind,) = (each for each in kinds if each != "null")
            return {**schema, "type": kind}, True
        choices = _schemas(schema, "anyOf")
        others = [each for each in choices if each.get("type") != "null"]
        if len(others) == 1 and len(others) < len(choices):
            inner, _ = self._resolved(others[0], references + 1)
            return {**inner, **{name: value for name, value in schema.items() if name != "anyOf"}}, True
        return schema, False


class BodyForm(SchemaForm, Generic[S]):
    """The form of a body of the administration."""

    def __init__(self, body: type[S], **options: Any) -> None:
        super().__init__(body_schema(body), **options)
        self._body = body

    def body(self, given: FormMultiDict, **more: Any) -> S:
        """Return the body that a form gives, with `more` fields. Raises Invalid."""
        return converted(self._body, self.read(given) | more)

    def changes(self, given: FormMultiDict, present: msgspec.Struct) -> S:
        """Return what differs from `present`. Raises Invalid, Conflict (see `changed`)."""
        return converted(self._body, self.changed(given, msgspec.to_builtins(present)))

    def replacement(self, given: FormMultiDict, present: msgspec.Struct) -> S:
        """Return the whole body, in place of `present`. Raises Invalid, Conflict (see `changed`)."""
        self.changed(given, msgspec.to_builtins(present))
        return self.body(given)


def body_schema(kind: type) -> dict[str, Any]:
    """Return the schema of a body, without the names and words of its classes."""
    schema = msgspec.json.schema(kind)
    for each in schema.get("$defs", {}).values():
        each.pop("title", None)
        each.pop("description", None)
    return schema


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What may be chosen, by its text: of an enum, of constants (MCP's elicitations have these), of yes and
    no.
    """
    if found := _list(schema.get("enum")):
        return {_word(each): each for each in found}
    either = _schemas(schema, "oneOf") or _schemas(schema, "anyOf")
    constants = [each["const"] for each in either if "const" in each]
    if constants:
        return {_word(each): each for each in constants}
    return dict(_YES_NO) if schema.get("type") == "boolean" else {}


def _words(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What may be given instead of an object: such as `always` for an approval policy."""
    return tuple(str(word) for each in _schemas(schema, "anyOf") for word in _list(each.get("enum")))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _schemas(schema: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Those of `anyOf` and the like that say something."""
    return [each for each in _list(schema.get(name)) if isinstance(each, Mapping)]


def _encoded(value: Any) -> bytes:
    """The same for values that are written the same in JSON, such as a tuple and a list."""
    return msgspec.json.encode(value, order="sorted")


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _shown(kind: FieldKind, value: Any, words: Collection[str]) -> str:
    if value is None:
        return ""
    match kind:
        case "lines":
            return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        case "json":
            return value if isinstance(value, str) and value in words else json_text(value)
        case _:
            return _word(value)


def _checked(name: str, kind: FieldKind, value: Any, given: FormMultiDict | None) -> tuple[str, ...]:
    if kind == "several":
        chosen = value if isinstance(value, list | tuple) else ()
        return tuple(map(str, chosen)) if given is None else tuple(given.getall(name, []))
    if kind == "flag":
        return ("on",) if (bool(value) if given is None else name in given) else ()
    return ()


def _names(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _number(name: str, text: str) -> int | float:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if abs(value) < _MOST_NUMBER:
            return value
    raise Invalid(name, "must be a number")


def whole_number(name: str, text: Any) -> int:
    """Raises Invalid."""
    try:
        value = int(str(text))
    except ValueError:
        raise Invalid(name, "must be a whole number") from None
    if abs(value) >= _MOST_NUMBER:
        raise Invalid(name, "must be smaller")
    return value


def _json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(name, f"is not valid JSON: {error}") from None


class RefusedForm(msgspec.Struct, frozen=True):
    """A form that was not taken, with all that was written in it, and why."""

    given: FormMultiDict
    error: AdminError

    @property
    def problem(self) -> Invalid | None:
        """What is wrong with one of its fields."""
        return self.error if isinstance(self.error, Invalid) else None
