"""Forms made of a JSON Schema: of a body of the administration, of a tool's input, of an elicitation."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec
from litestar.datastructures import FormMultiDict

from console.frame.filters import json_text
from contracts.admin_errors import AdminError, Invalid

FieldKind = Literal["line", "text", "number", "flag", "choice", "several", "lines", "json", "secret"]
"""How a value is asked for: `lines` is a list of texts, one a line; `several` are check boxes."""

_LONG_TEXT = 500
_YES_NO = {"true": True, "false": False}


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """`value` is the text shown, `values` are the boxes checked; `problem` is what is wrong with it."""

    name: str
    label: str
    kind: FieldKind
    required: bool
    note: str
    choices: tuple[str, ...]
    value: str = ""
    values: tuple[str, ...] = ()
    problem: str = ""


class SchemaForm:
    """The form of an object's schema, without the properties `leave_out`.

    With `blank_is_text`, a text that is left blank is the empty text, else it is not given. `secrets` are
    never shown, and not given where they are left blank.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        *,
        leave_out: Collection[str] = (),
        secrets: Collection[str] = (),
        blank_is_text: bool = False,
    ) -> None:
        self._defs: Mapping[str, Any] = schema.get("$defs", {})
        top, _ = self._resolved(schema)
        self._required = frozenset(top.get("required", ()))
        self._properties = {
            name: self._resolved(each)
            for name, each in top.get("properties", {}).items()
            if name not in leave_out
        }
        self._secrets = secrets
        self._blank_is_text = blank_is_text

    def fields(
        self, values: Mapping[str, Any], given: FormMultiDict | None = None, problem: Invalid | None = None
    ) -> tuple[FormField, ...]:
        """Filled with `values`, or with what was `given`, so that a form that was refused loses nothing."""
        return tuple(self._field(name, values, given, problem) for name in self._properties)

    def filled(self, values: Mapping[str, Any], refused: "RefusedForm | None") -> tuple[FormField, ...]:
        """The same after a try, if there was one."""
        return self.fields(values) if refused is None else self.fields(values, refused.given, refused.problem)

    def read(self, given: FormMultiDict) -> dict[str, Any]:
        """The object that a form gives. Raises Invalid."""
        read = {name: self._read(name, given) for name in self._properties}
        return {name: value for name, value in read.items() if value is not msgspec.UNSET}

    def changed(self, given: FormMultiDict, values: Mapping[str, Any]) -> dict[str, Any]:
        """What of it differs from `values`. Raises Invalid."""
        return {
            name: value
            for name, value in self.read(given).items()
            if name not in values or values[name] != value
        }

    def _field(
        self, name: str, values: Mapping[str, Any], given: FormMultiDict | None, problem: Invalid | None
    ) -> FormField:
        schema, nullable = self._properties[name]
        kind = self._kind(name)
        choices = tuple(_words(schema) if kind == "json" else _choices(schema))
        if kind == "choice" and (nullable or name not in self._required):
            choices = ("", *choices)
        shown = "" if kind == "secret" else _shown(kind, values.get(name, schema.get("default")))
        return FormField(
            name=name,
            label=str(schema.get("title") or name.replace("_", " ")),
            kind=kind,
            required=name in self._required,
            note=str(schema.get("description") or ""),
            choices=choices,
            value=shown if given is None or kind in ("flag", "secret") else str(given.get(name, "")),
            values=_checked(name, kind, values.get(name, schema.get("default")), given),
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
                return "text" if schema.get("maxLength", 0) > _LONG_TEXT and "url" not in name else "line"
            case _:
                return "json"

    def _read(self, name: str, given: FormMultiDict) -> Any:
        schema, nullable = self._properties[name]
        kind = self._kind(name)
        if kind == "flag":
            return name in given
        if kind == "several":
            return list(given.getall(name, []))
        text = str(given.get(name, "")).replace("\r\n", "\n")
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
        if kind in ("line", "text") and (self._blank_is_text or name in self._required):
            return ""
        return msgspec.UNSET

    def _resolved(self, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
        """The schema behind a reference and next to null, and whether it may be null."""
        if "$ref" in schema:
            return self._resolved(self._defs.get(str(schema["$ref"]).rpartition("/")[2], {}))
        others = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
        if len(others) == 1 and len(others) < len(schema["anyOf"]):
            inner, _ = self._resolved(others[0])
            return {**inner, **{name: value for name, value in schema.items() if name != "anyOf"}}, True
        return schema, False


def body_schema(kind: type) -> dict[str, Any]:
    """The schema of a body of the administration. Its classes' names and words are not for people's eyes."""
    schema = msgspec.json.schema(kind)
    for each in schema.get("$defs", {}).values():
        each.pop("title", None)
        each.pop("description", None)
    return schema


def _choices(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What may be chosen, by its text: of an enum, of constants (MCP's elicitations have these), of yes and
    no.
    """
    if "enum" in schema:
        return {str(each): each for each in schema["enum"]}
    constants = [each["const"] for each in schema.get("oneOf", schema.get("anyOf", ())) if "const" in each]
    if constants:
        return {str(each): each for each in constants}
    return dict(_YES_NO) if schema.get("type") == "boolean" else {}


def _words(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """What may be given instead of an object: such as `always` for an approval policy."""
    return tuple(str(word) for each in schema.get("anyOf", ()) for word in each.get("enum", ()))


def _shown(kind: FieldKind, value: Any) -> str:
    if value is None:
        return ""
    match kind:
        case "lines":
            return "\n".join(value)
        case "json":
            return value if isinstance(value, str) else json_text(value)
        case "choice" if isinstance(value, bool):
            return str(value).lower()
        case _:
            return str(value)


def _checked(name: str, kind: FieldKind, value: Any, given: FormMultiDict | None) -> tuple[str, ...]:
    if kind == "several":
        return tuple(value or ()) if given is None else tuple(given.getall(name, []))
    if kind == "flag":
        return ("on",) if (bool(value) if given is None else name in given) else ()
    return ()


def _names(path: str, name: str) -> bool:
    return path == name or path.startswith((f"{name}.", f"{name}["))


def _number(name: str, text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise Invalid(name, "must be a number") from None


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
