"""The redaction rules of a suite, ready for use: what finds a value in a text, and places in tool calls."""

import importlib
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from contracts import wire
from evals.errors import SuiteError, UnfitSuite
from evals.suite import SETTINGS, RedactionRule

Find = Callable[[str], Iterable[tuple[int, int]]]
"""The parts of a text that are to be replaced, [start, end) in code points."""

METADATA = "metadata"
_FIELD = re.compile(r"(?P<tool>[A-Za-z0-9_-]+)\.(?P<side>input|output)(?:\.(?P<path>.+))?")
_FUNCTION = re.compile(r"(?P<module>[\w.]+):(?P<name>\w+)")


class ReadyRule(msgspec.Struct, frozen=True, kw_only=True):
    """`label` is what cases call it, `template` what values become. `order`: earlier rules go first."""

    order: int
    label: str
    template: str


class FindRule(ReadyRule, frozen=True, kw_only=True):
    find: Find


class PlaceRule(ReadyRule, frozen=True, kw_only=True):
    """A place in what `tool` is called with (`input`) or returns (`output`); in the metadata `tool` is
    METADATA. `*` is any key; in a list, each element is at the place of the list.
    """

    tool: str
    side: str
    path: tuple[str, ...]


Paths = Sequence[tuple[PlaceRule, tuple[str, ...]]]
"""Rules, and what is left of their paths at a value."""

Leaf = Callable[[Any, PlaceRule | None], Any]
"""Gives what is put in the place of a scalar or a key; with the rule whose place that is."""


class ReadyRules(msgspec.Struct, frozen=True):
    finders: tuple[FindRule, ...] = ()
    places: tuple[PlaceRule, ...] = ()

    @property
    def labels(self) -> list[str]:
        """In the order of the suite's rules."""
        ordered: list[ReadyRule] = [*self.finders, *self.places]
        return [each.label for each in sorted(ordered, key=lambda each: each.order)]

    def __bool__(self) -> bool:
        return bool(self.finders or self.places)

    def paths_of(self, tool: str, side: str) -> Paths:
        return [(each, each.path) for each in self.places if (each.tool, each.side) == (tool, side)]


def ready(rules: Sequence[RedactionRule], folder: Path) -> ReadyRules:
    """Functions are imported: of a module that is in the suite's folder, or of one that is installed.

    Raises UnfitSuite, with the rule that is wrong.
    """
    finders: list[FindRule] = []
    places: list[PlaceRule] = []
    for order, rule in enumerate(rules):
        try:
            if rule.field is not None:
                places.append(_place(order, rule, rule.field))
            else:
                finders.append(_finder(order, rule, folder))
        except ValueError as error:
            raise UnfitSuite(SETTINGS, f"redact[{order}]: {error}") from None
    return ReadyRules(tuple(finders), tuple(places))


def walked(value: Any, paths: Paths, leaf: Leaf) -> Any:
    """`value`, which came of JSON, with what `leaf` gives for its scalars and keys.

    A text that is JSON itself, an object or a list, is walked through too, and is a text again.
    """
    at_place = next((rule for rule, rest in paths if not rest), None)
    match value:
        case dict():
            return {
                leaf(key, None): walked(item, _inside(paths, key, at_place), leaf)
                for key, item in value.items()
            }
        case list():
            inside = (_inside_list(paths, str(place), at_place) for place in range(len(value)))
            return [walked(item, each, leaf) for item, each in zip(value, inside, strict=True)]
        case str() if (inner := _json_in(value)) is not None:
            found = walked(inner, paths, leaf)
            return value if found == inner else wire.encode(found).decode()
        case _:
            return leaf(value, at_place)


def _inside(paths: Paths, key: str, at_place: PlaceRule | None) -> Paths:
    if at_place is not None:
        return [(at_place, ())]
    return [(rule, rest[1:]) for rule, rest in paths if rest[0] in (key, "*")]


def _inside_list(paths: Paths, place: str, at_place: PlaceRule | None) -> Paths:
    if at_place is not None:
        return [(at_place, ())]
    return [(rule, rest[1:] if rest[0] in (place, "*") else rest) for rule, rest in paths]


def _json_in(text: str) -> dict[str, Any] | list[Any] | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _place(order: int, rule: RedactionRule, field: str) -> PlaceRule:
    first, _, key = field.partition(".")
    found = _FIELD.fullmatch(field)
    if found is not None:
        tool, side, path = found["tool"], found["side"], tuple((found["path"] or "").split("."))
        path = () if path == ("",) else path
    elif first == METADATA and key:
        tool, side, path = METADATA, METADATA, (key,)
    else:
        raise ValueError(f"{field!r} is no field, such as get_order.input.email or metadata.customer")
    name = rule.name or (path[-1] if path and path[-1] != "*" else side)
    return PlaceRule(
        order=order, label=rule.label, template=_template(rule, name), tool=tool, side=side, path=path
    )


def _finder(order: int, rule: RedactionRule, folder: Path) -> FindRule:
    if rule.pattern is not None:
        find, name = _pattern(rule.pattern), rule.name or "redacted"
    else:
        find, name = _function(rule.function or "", folder)
    return FindRule(order=order, label=rule.label, template=_template(rule, rule.name or name), find=find)


def _template(rule: RedactionRule, name: str) -> str:
    return f"[{name} {{n}}]" if rule.replacement is None else rule.replacement


def _pattern(pattern: str) -> Find:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"pattern: not a regular expression: {error}") from None
    return lambda text: (match.span() for match in compiled.finditer(text))


def _function(named: str, folder: Path) -> tuple[Find, str]:
    parts = _FUNCTION.fullmatch(named)
    if parts is None:
        raise ValueError(f"function: {named!r} is not module:name")
    try:
        found = _callable(getattr(_module(parts["module"], folder), parts["name"]))
    except Exception as error:  # noqa: BLE001 - whatever the owner's module raises
        raise ValueError(f"function: {named} cannot be used: {error}") from None
    return _checked(found, named), parts["name"]


def _callable(found: Any) -> Callable[[str], Any]:
    if not callable(found):
        raise TypeError("it is no function")
    return cast(Callable[[str], Any], found)


def _module(name: str, folder: Path) -> Any:
    path = folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path) if path.is_file() else None
    if spec is None or spec.loader is None:
        return importlib.import_module(name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _checked(function: Callable[[str], Any], named: str) -> Find:
    """Nothing is written where the owner's function raises, or gives what is no part of the text."""

    def find(text: str) -> Iterator[tuple[int, int]]:
        try:
            spans = [(int(start), int(end)) for start, end in function(text)]
        except Exception as error:  # noqa: BLE001 - whatever the owner's function raises
            raise SuiteError(f"the function {named} failed: {type(error).__name__}: {error}") from None
        if not all(0 <= start <= end <= len(text) for start, end in spans):
            raise SuiteError(f"the function {named} gave a place that is not in the text")
        yield from spans

    return find
