"""Build and read HTML forms of a JSON Schema: of bodies, tool inputs and elicitations."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Generic, Literal, TypeVar

import msgspec
from litestar.datastructures import FormMultiDict

from agentchat.administration.checked_input import convert
from agentchat.console.shared.template_filters import format_json
from agentchat.contracts.admin_errors import AdminError, Conflict, Invalid

S = TypeVar("S")

FieldKind = Literal[
    "line", "text", "number", "flag", "choice", "several", "lines", "json", "secret", "hidden"
]
"""The kind of input: `lines` is a list of texts, one in a line; `several` are check boxes."""

_MADE_OF = "made_of"
_MARK_CHARACTERS = 8

_LONG_TEXT = 500
_MOST_NUMBER = 2**63
_MOST_REFERENCES = 20
"""A limit, since the schema of a tool server may refer to itself."""

_YES_NO = {"true": True, "false": False}


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form: `value` is its text, `values` are the checked boxes, `labels` the choices' texts."""

    name: str
    label: str
    kind: FieldKind
    required: bool = False
    note: str = ""
    choices: tuple[str, ...] = ()
    value: str = ""
    values: tuple[str, ...] = ()
    problem: str = ""
    example: str = ""
    labels: Mapping[str, str] = {}
    suggestions: tuple[str, ...] = ()


class SchemaForm:
    """The form of an object's schema, without the properties `leave_out`.

    With `blank_is_empty`, a blank text, list or object is an empty value; otherwise it is left out.
    `secrets` are never shown, and are left out if they are blank.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        leave_out: Collection[str] = (),
        secrets: Collection[str] = (),
        blank_is_empty: bool = False,
    ) -> None:
        self._defs = _as_mapping(schema.get("$defs"))
        top, _ = self._resolve(schema)
        self._required = frozenset(map(str, _as_list(top.get("required"))))
        self._properties = {
            name: self._resolve(each)
            for name, each in _as_mapping(top.get("properties")).items()
            if name not in leave_out
        }
        self._secrets = secrets
        self._blank_is_empty = blank_is_empty

    def build_fields(
        self, values: Mapping[str, Any], given: FormMultiDict | None = None, problem: Invalid | None = None
    ) -> tuple[FormField, ...]:
        """Build the fields, filled with `values` or with a refused form `given`."""
        return tuple(self._build_field(name, values, given, problem) for name in self._properties)

    def fill(
        self, shown: msgspec.Struct | Mapping[str, Any] | None, refused: "RefusedForm | None" = None
    ) -> tuple[FormField, ...]:
        """Return the fields filled with `shown`, or with the refused form if it was this one."""
        values: Mapping[str, Any] = {} if shown is None else msgspec.to_builtins(shown)
        if refused is None or self._properties.keys().isdisjoint(refused.given.keys()):
            fields = self.build_fields(values)
        else:
            fields = self.build_fields(values, refused.given, refused.problem)
        marks = ".".join(self._hash_values(values))
        return (*fields, FormField(name=_MADE_OF, label="", kind="hidden", value=marks))

    def read(self, given: FormMultiDict) -> dict[str, Any]:
        """Read the object from a form. Raises Invalid."""
        read = {name: self._read_field(name, given) for name in self._properties}
        return {name: value for name, value in read.items() if value is not msgspec.UNSET}

    def read_changes(self, given: FormMultiDict, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a form that differ from `values`.

        Raises:
            Invalid: If a field cannot be read.
            Conflict: If someone changed `values` since the form was rendered; saving would undo that.
        """
        made_of, now = str(given.get(_MADE_OF, "")).split("."), self._hash_values(values)
        if len(made_of) == len(now) and made_of != now:
            changed = ", ".join(
                self._build_label(name)
                for name, *marks in zip(self._properties, made_of, now, strict=True)
                if marks[0] != marks[1]
            )
            raise Conflict(
                f"{changed} was changed by someone else since you opened this page. What you wrote is kept "
                "below; save again to overwrite the other change"
            )
        return {
            name: value
            for name, value in self.read(given).items()
            if name not in values or _encode(values[name]) != _encode(value)
        }

    def _hash_values(self, values: Mapping[str, Any]) -> list[str]:
        """Hash each shown value, so that a form shows which have been changed since."""
        shown = (None if name in self._secrets else values.get(name) for name in self._properties)
        return [hashlib.sha256(_encode(each)).hexdigest()[:_MARK_CHARACTERS] for each in shown]

    def _build_label(self, name: str) -> str:
        schema, _ = self._properties[name]
        words = name.replace("_", " ")
        return str(schema.get("title") or words[:1].upper() + words[1:])

    def apply_edits(self, given: FormMultiDict, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return `values` with the changes made in their form. Raises Invalid.

        Unchanged values stay byte for byte, also values that a form cannot hold and properties that the
        schema does not name.
        """
        edited = dict(values)
        for shown in self.build_fields(values):
            sent = self._build_field(shown.name, values, given, None)
            if sent.values == shown.values and _normalize_lines(sent.value) == _normalize_lines(shown.value):
                continue
            read = self._read_field(shown.name, given)
            if read is msgspec.UNSET:
                edited.pop(shown.name, None)
            else:
                edited[shown.name] = read
        return edited

    def _build_field(
        self, name: str, values: Mapping[str, Any], given: FormMultiDict | None, problem: Invalid | None
    ) -> FormField:
        schema, nullable = self._properties[name]
        kind = self._choose_kind(name)
        options, _ = self._resolve(schema.get("items")) if kind == "several" else (schema, False)
        choices = tuple(_list_words(schema) if kind == "json" else _list_choices(options))
        if kind == "choice" and (nullable or name not in self._required):
            choices = ("", *choices)
        value = values.get(name, schema.get("default"))
        shown = "" if kind == "secret" else _format_value(kind, value, choices)
        if kind == "line" and "\n" in shown:
            kind = "text"  # an input of one line would lose the line breaks
        if kind == "choice" and shown not in choices:
            choices = (*choices, shown)
        return FormField(
            name=name,
            label=self._build_label(name),
            kind=kind,
            required=name in self._required,
            note=str(schema.get("description") or ""),
            choices=choices,
            example=", ".join(map(str, _as_list(schema.get("examples")))),
            value=shown if given is None or kind in ("flag", "secret") else str(given.get(name, "")),
            values=_list_checked(name, kind, value, given),
            problem=problem.reason if problem and _is_within(problem.field, name) else "",
        )

    def _choose_kind(self, name: str) -> FieldKind:
        schema, nullable = self._properties[name]
        if name in self._secrets:
            return "secret"
        items, _ = self._resolve(schema.get("items", {}))
        match schema.get("type"):
            case "array":
                return (
                    "several"
                    if _list_choices(items)
                    else "lines"
                    if items.get("type") == "string"
                    else "json"
                )
            case "boolean":
                return "choice" if nullable else "flag"
            case _ if _list_choices(schema):
                return "choice"
            case "integer" | "number":
                return "number"
            case "string":
                longest = schema.get("maxLength")
                is_long = isinstance(longest, int) and longest > _LONG_TEXT
                return "text" if is_long and "url" not in name else "line"
            case _:
                return "json"

    def _read_field(self, name: str, given: FormMultiDict) -> Any:
        schema, nullable = self._properties[name]
        kind = self._choose_kind(name)
        if kind == "flag":
            return name in given
        if kind == "several":
            return list(given.getall(name, []))
        if name not in given:
            return msgspec.UNSET
        text = str(given[name]).replace("\r\n", "\n")
        if not text.strip():
            return self._read_blank(name, kind, nullable)
        match kind:
            case "number":
                return _parse_number(name, text)
            case "choice":
                return _list_choices(schema).get(text, text)
            case "lines":
                return [line.strip() for line in text.split("\n") if line.strip()]
            case "secret" if schema.get("type") == "object":
                return _parse_json(name, text)
            case "json":
                return text.strip() if text.strip() in _list_words(schema) else _parse_json(name, text)
            case _:
                return text

    def _read_blank(self, name: str, kind: FieldKind, nullable: bool) -> Any:
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

    def _resolve(self, schema: Any, references: int = 0) -> tuple[Mapping[str, Any], bool]:
        """Return the schema behind references and without null, and whether it may be null.

        A schema that is `true` or refers to itself gives the empty schema, which allows any value.
        """
        if not isinstance(schema, Mapping) or references > _MOST_REFERENCES:
            return {}, False
        if "$ref" in schema:
            found = self._defs.get(str(schema["$ref"]).rpartition("/")[2], {})
            return self._resolve(found, references + 1)
        kinds = schema.get("type")
        if isinstance(kinds, list) and "null" in kinds and len(kinds) == 2:
            (kind,) = (each for each in kinds if each != "null")
            return {**schema, "type": kind}, True
        choices = _list_schemas(schema, "anyOf")
        others = [each for each in choices if each.get("type") != "null"]
        if len(others) == 1 and len(others) < len(choices):
            inner, _ = self._resolve(others[0], references + 1)
            return {**inner, **{name: value for name, value in schema.items() if name != "anyOf"}}, True
        return schema, False


class BodyForm(SchemaForm, Generic[S]):
    """The form of a request body of the administration."""

    def __init__(self, body: type[S], **options: Any) -> None:
        super().__init__(build_body_schema(body), **options)
        self._body = body

    def read_body(self, given: FormMultiDict, **more: Any) -> S:
        """Read the body from a form, with `more` fields. Raises Invalid."""
        return convert(self._body, self.read(given) | more)

    def read_body_changes(self, given: FormMultiDict, present: msgspec.Struct) -> S:
        """Read what differs from `present`. Raises Invalid, Conflict (see `read_changes`)."""
        return convert(self._body, self.read_changes(given, msgspec.to_builtins(present)))

    def read_replacement(self, given: FormMultiDict, present: msgspec.Struct, **more: Any) -> S:
        """Read the complete body, with `more` fields. Raises Invalid, Conflict (see `read_changes`)."""
        self.read_changes(given, msgspec.to_builtins(present))
        return self.read_body(given, **more)


def build_body_schema(kind: type) -> dict[str, Any]:
    """Return the schema of a body, without the names and docstrings of its classes."""
    schema = msgspec.json.schema(kind)
    for each in schema.get("$defs", {}).values():
        each.pop("title", None)
        each.pop("description", None)
    return schema


def _list_choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values to choose from by their text: of an enum, constants, or yes and no."""
    if found := _as_list(schema.get("enum")):
        return {_format_word(each): each for each in found}
    either = _list_schemas(schema, "oneOf") or _list_schemas(schema, "anyOf")
    constants = [each["const"] for each in either if "const" in each]
    if constants:
        return {_format_word(each): each for each in constants}
    return dict(_YES_NO) if schema.get("type") == "boolean" else {}


def _list_words(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words allowed instead of an object, such as `always` for an approval policy."""
    return tuple(str(word) for each in _list_schemas(schema, "anyOf") for word in _as_list(each.get("enum")))


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _list_schemas(schema: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Return the schemas of `anyOf` or a similar keyword that are objects."""
    return [each for each in _as_list(schema.get(name)) if isinstance(each, Mapping)]


def _encode(value: Any) -> bytes:
    """Encode a value, so that values equal in JSON are equal, such as a tuple and a list."""
    return msgspec.json.encode(value, order="sorted")


def _format_word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _normalize_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _format_value(kind: FieldKind, value: Any, words: Collection[str]) -> str:
    if value is None:
        return ""
    match kind:
        case "lines":
            return "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        case "json":
            return value if isinstance(value, str) and value in words else format_json(value)
        case _:
            return _format_word(value)


def _list_checked(name: str, kind: FieldKind, value: Any, given: FormMultiDict | None) -> tuple[str, ...]:
    if kind == "several":
        chosen = value if isinstance(value, list | tuple) else ()
        return tuple(map(str, chosen)) if given is None else tuple(given.getall(name, []))
    if kind == "flag":
        return ("on",) if (bool(value) if given is None else name in given) else ()
    return ()


def _is_within(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _parse_number(name: str, text: str) -> int | float:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if abs(value) < _MOST_NUMBER:
            return value
    raise Invalid(name, "must be a number")


def parse_whole_number(name: str, text: Any) -> int:
    """Parse a whole number. Raises Invalid."""
    try:
        value = int(str(text))
    except ValueError:
        raise Invalid(name, "must be a whole number") from None
    if abs(value) >= _MOST_NUMBER:
        raise Invalid(name, "must be smaller")
    return value


def _parse_json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(name, f"is not valid JSON: {error}") from None


class RefusedForm(msgspec.Struct, frozen=True):
    """A form that was refused, with everything that was written in it, and the reason."""

    given: FormMultiDict
    error: AdminError

    @property
    def problem(self) -> Invalid | None:
        """The error of one of the fields, if that is the reason."""
        return self.error if isinstance(self.error, Invalid) else None
