"""Redact a case: replace what its suite's rules find in everything that people, models and tools wrote.

Every text of an event is searched, except the fields in `_IDENTIFIERS`, so a field that is added later is
redacted too. A value at the place of a `field` rule is also replaced wherever else the case has it as a word,
in any form (`redaction_matching`). If anything was redacted, data that cannot be searched is left out
(`_LEFT_OUT`, thinking).
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import normalize

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events, wire
from agentchat.conversations.event_store import mapper
from agentchat.evals.cases import Case
from agentchat.evals.errors import NotACase, UnfitSuite
from agentchat.evals.redaction_matching import (
    compile_value,
    find_spans,
    fold_with_places,
    merge_spans,
    strip_value,
)
from agentchat.evals.redaction_rules import RedactionRule
from agentchat.evals.suite import SETTINGS

METADATA = "metadata"
_FIELD = re.compile(r"(?P<tool>[A-Za-z0-9_-]+)\.(?P<side>input|output)(?:\.(?P<path>.+))?")

_IDENTIFIERS = frozenset(
    (
        *("type", "trace_id", "at", "inherited_from", "account_id", "source_id", "message_id", "agent_id"),
        *("call_id", "approval_id", "id", "tool_use_id", "role", "kind", "mode", "key", "server", "tool"),
        *("name", "form", "model", "provider", "worker", "requested_model", "on_interruption", "code"),
        *("stop_reason", "decision", "approvers", "on_expiry", "on_new_message", "expires_at"),
        *("source_type", "steers", "interrupted_by", "input_sha256", "prompt_sha256", "tools_sha256"),
    )
)
"""Fields of events, and of the blocks and sources in them, that nobody writes."""
_FREE = frozenset(("input", "metadata", "requested_schema", "output_schema", "parameters", "context"))
"""Fields with JSON of tools and callers: all keys and values in them are looked into."""
_PLACED = frozenset(("input", METADATA))
"""Fields that rules for fields are about."""
_LEFT_OUT = frozenset(("provider_data", "request_state", "shown_sha256", "signature", "citations"))
_PLACEHOLDER_CHARACTERS = 100
_MAX_DIGITS = 1_000
_OPERATOR = "operator"
"""The kind of a decider whose id is a person's name."""

Path = tuple[str, ...]
Place = tuple[str, str]
"""A tool and `input` or `output`; METADATA twice."""


class PlaceRule(msgspec.Struct, frozen=True):
    """A `field` rule: `*` is any key of its path; in a list, each element is at the place of the list."""

    place: Place
    path: Path
    rule: "PlaceholderRule"


class PlaceholderRule(msgspec.Struct, frozen=True):
    """`label` is its name in cases, `template` what values become."""

    label: str
    template: str


class CaseRedactor:
    """The rules of a suite, ready for use."""

    def __init__(self, rules: Sequence[RedactionRule]) -> None:
        """Raises UnfitSuite, with the rule that is wrong."""
        self.labels = [each.label for each in rules]
        self.patterns: list[tuple[re.Pattern[str], PlaceholderRule]] = []
        self.places: list[PlaceRule] = []
        for number, each in enumerate(rules):
            try:
                self._add(each)
            except (ValueError, re.error) as error:
                raise UnfitSuite(SETTINGS, f"redact[{number}]: {error}") from None

    def redact_case(self, case: Case) -> Case:
        """Return the case without what the rules find, and with the labels of those that found something.

        Raises:
            NotACase: Its JSON is nested too deeply.
        """
        try:
            return _Redaction(self, case).redact() if self.labels else case
        except RecursionError:
            raise NotACase(case.id, "JSON of its tools is nested too deeply") from None

    def _add(self, given: RedactionRule) -> None:
        if given.pattern is not None:
            rule = PlaceholderRule(given.label, given.replacement or f"[{given.name or 'redacted'} {{n}}]")
            self.patterns.append((re.compile(normalize("NFC", given.pattern)), rule))
            return
        place, path = _parse_place(given.field or "")
        name = given.name or (path[-1] if path and path[-1] != "*" else place[1])
        rule = PlaceholderRule(given.label, given.replacement or f"[{name} {{n}}]")
        self.places.append(PlaceRule(place, path, rule))


class _Redaction:
    """The redaction of a case: the same value becomes the same placeholder."""

    def __init__(self, redactor: CaseRedactor, case: Case) -> None:
        self._redactor = redactor
        self._case = case
        self._events = [mapper.decode_event(bytes(each)) for each in case.events]
        self._tools = {
            each.call_id: each.name for each in self._events if isinstance(each, events.ToolCalled)
        }
        self._tools |= {
            each.approval_id: self._tools.get(each.call_id, "")
            for each in self._events
            if isinstance(each, events.ApprovalRequested)
        }
        self._struck: set[str] = set()
        self._by_value: dict[str, str] = {}
        self._used: Counter[str] = Counter()
        self._words: list[tuple[re.Pattern[str], PlaceholderRule]] = []
        self._inputs: dict[str, Any] = {}
        for place, value in self._iterate_places():
            for rule, found in _find_values(value, self._get_rules(place)):
                self._learn(found, rule)

    def redact(self) -> Case:
        case = self._case
        stored = tuple(msgspec.Raw(wire.encode(self._redact_event(each))) for each in self._events)
        passages = {key: self._redact_text(text) for key, text in case.passages.items()}
        message = self._redact_text(case.message)
        if not self._struck:
            return case
        labels = tuple(label for label in self._redactor.labels if label in self._struck)
        return replace(case, events=stored, passages=passages, message=message, redacted=labels)

    def _iterate_places(self) -> Iterator[tuple[Place, Any]]:
        """The JSON of tools and callers that rules for fields are about."""
        for event in self._events:
            match event:
                case events.ConversationStarted() | events.ConversationDescribed():
                    yield (METADATA, METADATA), event.metadata
                case events.ModelReplied():
                    for block in event.blocks:
                        yield (block.get("name", ""), "input"), block.get("input")
                case events.ToolCalled():
                    yield (event.name, "input"), event.input
                case events.ElicitationRequested():
                    yield (event.asked.name, "input"), event.asked.input
                case events.ApprovalDecided():
                    yield (self._tools.get(event.approval_id, ""), "input"), event.input
                case events.ToolReturned():
                    yield (self._tools.get(event.call_id, ""), "output"), _read_json(event.output)
                case _:
                    pass

    def _get_rules(self, place: Place) -> list[tuple[Path, PlaceholderRule]]:
        return [(each.path, each.rule) for each in self._redactor.places if each.place == place]

    def _learn(self, value: str, rule: PlaceholderRule) -> None:
        pattern = compile_value(value)
        if pattern is not None:
            self._words.append((pattern, rule))

    def _redact_event(self, event: events.Event) -> events.Event:
        fields = msgspec.to_builtins(event)
        rules: list[tuple[Path, PlaceholderRule]] = []
        match event:
            case events.ToolReturned():
                return replace(event, output=self._redact_output(event))
            case events.Delta():
                return replace(event, text=self._redact_text(event.text), cuts=())
            case events.ConversationStarted() | events.ConversationDescribed():
                rules = self._get_rules((METADATA, METADATA))
            case events.ApprovalDecided():
                rules = self._get_rules((self._tools.get(event.approval_id, ""), "input"))
            case events.ModelReplied():
                fields |= {"blocks": self._join_texts(fields["blocks"]), "offered_tools": None}
                fields["documents"] = None  # the case has its passages
            case events.SourcesRetrieved():
                return replace(event, sources=tuple(map(self._redact_source, event.sources)))
            case _:
                pass
        found = self._redact_fields(fields, rules)
        if fields.get("by", {}).get("kind") == _OPERATOR:
            found["by"]["id"] = self._redact_text(fields["by"]["id"])
        if isinstance(event, events.ToolCalled):
            self._inputs[event.call_id] = found["input"]
        if isinstance(event, events.DecisionRequested):  # the hash of the input would confirm a guess
            shown = wire.encode_canonical(self._inputs.get(event.call_id, {}))
            found["input_sha256"] = hashlib.sha256(shown).hexdigest()
            found.pop("offered_tool", None)
        return msgspec.convert(found, type(event))

    def _join_texts(self, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Leave out thinking, and join the texts: a value may go on in the next block."""
        kept = []
        for each in blocks:
            if "thinking" in each.get("type", ""):
                self._redact_json(each, [])  # the case is one with a value
            else:
                kept.append(each)
        texts = [each for each in kept if each.get("type") == "text"]
        if len(texts) < 2:
            return kept
        first = texts[0] | {"text": "".join(each["text"] for each in texts)}
        return [
            first if each is texts[0] else each
            for each in kept
            if each is texts[0] or each.get("type") != "text"
        ]

    def _redact_fields(
        self, fields: dict[str, Any], rules: Sequence[tuple[Path, PlaceholderRule]] = ()
    ) -> dict[str, Any]:
        """Redact the fields of an event, a block or a tool's question; the last two may name their tool."""
        rules = rules or self._get_rules((str(fields.get("name", "")), "input"))
        return {
            name: self._redact_json(value, rules) if name in _PLACED else self._redact_field(name, value)
            for name, value in fields.items()
            if name not in _LEFT_OUT
        }

    def _redact_field(self, name: str, value: Any) -> Any:
        if name in _IDENTIFIERS and not isinstance(value, dict | list):
            return value
        if name in _FREE:
            return self._redact_json(value, [])
        match value:
            case dict():
                return self._redact_fields(value)
            case list() | tuple():
                return [self._redact_field(name, item) for item in value]
            case str():
                return self._redact_text(value)
            case _:
                return value

    def _redact_output(self, event: events.ToolReturned) -> str:
        """Redact the output of a tool, JSON or a text."""
        value = _read_json(event.output)
        found = self._redact_json(value, self._get_rules((self._tools.get(event.call_id, ""), "output")))
        return event.output if found == value else _encode(found)

    def _redact_source(self, source: Any) -> Any:
        """Cut the snippet out of the redacted passage: so it shows no half of a value."""
        passage = self._redact_text(self._case.passages.get(source.id, source.snippet))
        fields = self._redact_field("", msgspec.to_builtins(source) | {"snippet": ""})
        snippet = passage[: len(source.snippet) + _PLACEHOLDER_CHARACTERS]
        return msgspec.convert(fields | {"snippet": snippet}, type(source))

    def _redact_json(self, value: Any, rules: Sequence[tuple[Path, PlaceholderRule]]) -> Any:
        """Redact JSON of anybody: its keys and values; a text that is JSON itself is looked into."""
        here = next((rule for path, rule in rules if not path), None)
        match value:
            case dict():
                return {
                    self._redact_text(key): self._redact_json(item, _descend(rules, key, here))
                    for key, item in value.items()
                }
            case list() | tuple():
                return [
                    self._redact_json(item, _descend_list(rules, number, here))
                    for number, item in enumerate(value)
                ]
            case None | bool() if here is None or value is None:
                return value
            case str() if (inner := parse_json(value)) is not None:
                found = self._redact_json(inner, rules)
                return value if found == inner else _encode(found)
            case _:
                text = _to_text(value)
                found = self._get_placeholder(text, here) if here is not None else self._redact_text(text)
                return value if found == text else found

    def _redact_text(self, text: str) -> str:
        """Replace what the rules find. If places overlap, the earlier rule's placeholder stays."""
        patterns = self._redactor.patterns
        written = [] if text.isascii() else list(find_spans(text, patterns))
        folded, moved = fold_with_places(
            text, (place for start, end, *_ in written for place in (start, end))
        )
        spans = [(moved[start], moved[end], number, rule) for start, end, number, rule in written]
        spans += find_spans(folded, (*patterns, *self._words))
        if not spans:
            return text
        self._struck.update(rule.label for *_, rule in spans)
        pieces, last = [], 0
        for start, end, rule in merge_spans(spans):
            pieces += [folded[last:start], self._get_placeholder(folded[start:end], rule)]
            last = end
        return "".join([*pieces, folded[last:]])

    def _get_placeholder(self, value: str, rule: PlaceholderRule) -> str:
        self._struck.add(rule.label)
        plain = strip_value(value).casefold()
        known = next((each for each in (value, plain) if self._by_value.get(each)), None)
        if known is not None:
            return self._by_value[known]
        self._used[rule.template] += 1
        made = rule.template.replace("{n}", str(self._used[rule.template]))
        self._by_value[value] = self._by_value[plain] = made
        return made


def _parse_place(field: str) -> tuple[Place, Path]:
    """Raises ValueError."""
    first, _, key = field.partition(".")
    found = _FIELD.fullmatch(field)
    if found is not None:
        path = tuple(found["path"].split(".")) if found["path"] else ()
        return (found["tool"], found["side"]), path
    if first == METADATA and key:
        return (METADATA, METADATA), (key,)
    raise ValueError(f"{field!r} is no field, such as get_order.input.email or metadata.customer")


def _find_values(
    value: Any, rules: Sequence[tuple[Path, PlaceholderRule]]
) -> Iterator[tuple[PlaceholderRule, str]]:
    """Find the scalars at the places of rules."""
    here = next((rule for path, rule in rules if not path), None)
    match value:
        case dict():
            for key, item in value.items():
                yield from _find_values(item, _descend(rules, key, here))
        case list():
            for number, item in enumerate(value):
                yield from _find_values(item, _descend_list(rules, number, here))
        case str() if (inner := parse_json(value)) is not None:
            yield from _find_values(inner, rules)
        case None | bool():
            return
        case _ if here is not None:
            yield here, _to_text(value)


def _descend(
    rules: Sequence[tuple[Path, PlaceholderRule]], key: str, here: PlaceholderRule | None
) -> list[tuple[Path, PlaceholderRule]]:
    if here is not None:
        return [((), here)]
    return [(path[1:], rule) for path, rule in rules if path[0] in (key, "*")]


def _descend_list(
    rules: Sequence[tuple[Path, PlaceholderRule]], number: int, here: PlaceholderRule | None
) -> list[tuple[Path, PlaceholderRule]]:
    if here is not None:
        return [((), here)]
    return [(path[1:] if path[0] in (str(number), "*") else path, rule) for path, rule in rules]


def parse_json(text: str) -> Any:
    """Return the object, list or string that a text holds, else None. Raises RecursionError."""
    value = _read_json(text) if text.lstrip().startswith(("{", "[", '"')) else text
    return None if value is text else value


def _read_json(text: str) -> Any:
    """Return the JSON value that a text holds, or the text if it holds none. Raises RecursionError."""
    try:
        return json.loads(text, object_pairs_hook=_build_object, parse_constant=str, parse_int=_read_integer)
    except ValueError:
        return text


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. A name that it has several times gets the list of its values, so that none is lost."""
    found = dict(pairs)
    for name, number in Counter(name for name, _ in pairs).items() if len(found) < len(pairs) else ():
        if number > 1:
            found[name] = [value for other, value in pairs if other == name]
    return found


def _read_integer(digits: str) -> int | str:
    """Keep the digits of a number that Python refuses to read."""
    return int(digits) if len(digits) < _MAX_DIGITS else digits


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value)


def _encode(value: Any) -> str:
    try:
        return wire.encode(value).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape
        return json.dumps(value)
