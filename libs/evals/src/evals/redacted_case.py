"""A case without what its suite's rules find: in everything that people, models and tools wrote, whatever the
event; ids, times, names of tools and figures stay.

A value of a tool's field is replaced in all texts, and a text that is stored in parts (a reply by rounds, a
passage by its snippet) is redacted as a whole: so no part shows what the whole hides. In a case of which
anything was redacted, what cannot be looked into is left out: thinking and its signatures, `provider_data`, a
tool's `request_state`, the hash of what a caller showed. One of which nothing was keeps its bytes.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from contracts import wire
from evals.cases import Case
from evals.redacted_text import Placeholders, RedactedText
from evals.redaction_rules import METADATA, Paths, PlaceRule, ReadyRules, walked

JSON = dict[str, Any]

_KEPT = frozenset(
    (
        *("type", "trace_id", "at", "inherited_from", "account_id", "source_id", "message_id", "agent_id"),
        *(
            "call_id",
            "approval_id",
            "id",
            "tool_use_id",
            "role",
            "kind",
            "mode",
            "key",
            "name",
            "server",
            "tool",
        ),
        *("form", "model", "provider", "worker", "requested_model", "on_interruption", "stop_reason", "code"),
        *("decision", "approvers", "on_expiry", "on_new_message", "expires_at", "source_type"),
        *("input_sha256", "prompt_sha256", "tools_sha256"),
    )
)
"""What is no text of anybody: any other text of an event is looked into, also of events that come later."""
_LEFT_OUT = frozenset(("provider_data", "request_state", "shown_sha256", "signature", "citations"))
_THINKING = frozenset(("thinking", "redacted_thinking"))
_FREE = frozenset(("input", "metadata", "requested_schema", "output_schema", "provider_data"))
"""Their keys are anybody's too."""


def redacted(case: Case, rules: ReadyRules) -> Case:
    """The case, and in it the labels of the rules that found something. Raises SuiteError, of a function."""
    return _Redaction(case, rules).case() if rules else case


class _Redaction:
    def __init__(self, case: Case, rules: ReadyRules) -> None:
        self._case = case
        self._rules = rules
        self._events: list[JSON] = [msgspec.json.decode(each) for each in case.events]
        self._tools = _tools_of(self._events)
        self._values = Placeholders(rules)
        for event in self._events:
            for value, paths in self._structured(event):
                walked(value, paths, self._learned)
        self._replies = dict(self._joined_replies())
        self._seen: dict[tuple[str, str], int] = defaultdict(int)
        self._changed_prompts: set[str] = set()
        self._inputs: dict[str, JSON] = {}

    def case(self) -> Case:
        case = self._case
        stored = tuple(
            raw if (found := self._fact(event)) == event else msgspec.Raw(wire.encode(found))
            for raw, event in zip(case.events, self._events, strict=True)
        )
        passages = {key: self._values.text(text) for key, text in case.passages.items()}
        feedback = tuple(
            replace(each, label=self._optional(each.label), comment=self._optional(each.comment))
            for each in case.feedback
        )
        message = self._values.text(case.message)
        if not self._values.struck:
            return case
        struck = tuple(label for label in self._rules.labels if label in self._values.struck)
        return replace(
            case, events=stored, passages=passages, feedback=feedback, message=message, redacted=struck
        )

    def _structured(self, event: JSON) -> Iterator[tuple[Any, Paths]]:
        """The JSON of tools and callers in an event, with the rules of its fields."""
        match _name_of(event):
            case "tool_called":
                yield event["input"], self._rules.paths_of(event["name"], "input")
            case "tool_returned":
                yield event["output"], self._paths_of_call(event, "output")
            case "approval_decided" if event.get("input") is not None:
                yield event["input"], self._paths_of_call(event, "input")
            case "elicitation_requested" | "approval_requested" if event.get("asked"):
                yield event["asked"]["input"], self._paths_of_call(event, "input")
            case "model_replied":
                for block in event["blocks"]:
                    if "input" in block:
                        yield block["input"], self._rules.paths_of(block.get("name", ""), "input")
            case "conversation_described":
                yield event.get("metadata", {}), self._rules.paths_of(METADATA, METADATA)
            case _:
                pass

    def _paths_of_call(self, event: JSON, side: str) -> Paths:
        return self._rules.paths_of(self._tools.get(event.get("call_id") or event["approval_id"], ""), side)

    def _learned(self, value: Any, place: PlaceRule | None) -> Any:
        if place is not None and value is not None and not isinstance(value, bool):
            self._values.learn(_as_text(value), place)
        return value

    def _leaf(self, value: Any, place: PlaceRule | None) -> Any:
        if value is None or (isinstance(value, bool) and place is None):
            return value
        text = _as_text(value)
        if place is not None:
            return self._values.of(text, place)
        found = self._values.text(text)
        return value if found == text else found

    def _free(self, value: Any, paths: Paths = ()) -> Any:
        return walked(value, paths, self._leaf)

    def _optional(self, text: str | None) -> str | None:
        return None if text is None else self._values.text(text)

    def _fact(self, event: JSON) -> JSON:
        """The event, redacted. They are taken in their order, each once."""
        return self._object(event, self._special(event))

    def _object(self, value: JSON, made: Mapping[str, Any] = MappingProxyType({})) -> JSON:
        """With every text in it redacted that is not _KEPT; what is `made` is in the place of what was."""
        found = {
            key: made[key] if key in made else item if key in _KEPT else self._any(item, is_free=key in _FREE)
            for key, item in value.items()
        }
        return {key: item for key, item in found.items() if key not in _LEFT_OUT or item is None}

    def _any(self, value: Any, *, is_free: bool = False) -> Any:
        match value:
            case _ if is_free:
                return self._free(value)
            case dict():
                return self._object(value)
            case list():
                return [self._any(item) for item in value]
            case str():
                return self._values.text(value)
            case _:
                return value

    def _special(self, event: JSON) -> JSON:
        """The fields of an event that are more than a text each."""
        match _name_of(event):
            case "tool_called":
                given = self._inputs[event["call_id"]] = self._only(event)
                return {"input": given}
            case "tool_returned":
                return {"output": self._output(event)}
            case "conversation_described":
                return {"metadata": self._only(event)}
            case "approval_decided" | "feedback_given" | "feedback_withdrawn":
                return self._decision(event)
            case "approval_requested" | "elicitation_requested":
                return self._request(event)
            case "message_saved" if event["role"] == "assistant":
                reply = self._replies.get((event["trace_id"], event["content"]))
                return {} if reply is None else {"content": reply.text}
            case "delta":
                return self._delta(event)
            case "model_replied":
                return self._reply(event)
            case "run_started":
                return self._started(event)
            case "sources_retrieved":
                return {
                    "sources": [
                        self._object(each, {"snippet": self._snippet(each["id"], each["snippet"])})
                        for each in event["sources"]
                    ]
                }
            case _:
                return {}

    def _only(self, event: JSON) -> Any:
        (structured,) = self._structured(event)
        return self._free(*structured)

    def _output(self, event: JSON) -> str:
        """It is JSON, whatever it is: a text in it too."""
        output: str = event["output"]
        try:
            value = msgspec.json.decode(output)
        except (msgspec.DecodeError, RecursionError):
            return self._values.text(output)
        found = self._free(value, self._paths_of_call(event, "output"))
        return output if found == value else wire.encode(found).decode()

    def _request(self, event: JSON) -> JSON:
        made: JSON = {}
        if (given := self._inputs.get(event["call_id"])) is not None and event["input_sha256"]:
            made["input_sha256"] = hashlib.sha256(wire.encode_canonical(given)).hexdigest()
        if event.get("asked"):
            made["asked"] = self._object(event["asked"], {"input": self._only(event)})
        return made

    def _decision(self, event: JSON) -> JSON:
        made: JSON = {}
        if event.get("input") is not None:
            made["input"] = self._only(event)
        if event["by"]["kind"] == "operator":  # their id is their name
            made["by"] = event["by"] | {"id": self._values.text(event["by"]["id"])}
        return made

    def _delta(self, event: JSON) -> JSON:
        text: str = event["text"]
        reply, start = self._part_of_reply(event["trace_id"], "delta", text)
        first = reply.place_of(start)
        ends = {reply.place_of(start + cut) - first for cut in event["cuts"]}
        return {"text": reply.part(start, start + len(text)), "cuts": sorted(ends - {0})}

    def _reply(self, event: JSON) -> JSON:
        blocks = [(each.get("type"), self._block(event, each)) for each in event["blocks"]]
        made: JSON = {"blocks": [block for kind, block in blocks if kind not in _THINKING]}
        if event["trace_id"] in self._changed_prompts:
            made["prompt_sha256"] = None
        return made

    def _block(self, event: JSON, block: JSON) -> JSON:
        made: JSON = {}
        if "input" in block:
            made["input"] = self._free(block["input"], self._rules.paths_of(block.get("name", ""), "input"))
        if block.get("type") == "text":
            reply, start = self._part_of_reply(event["trace_id"], "block", block["text"])
            made["text"] = reply.part(start, start + len(block["text"]))
        return self._object(block, made)

    def _started(self, event: JSON) -> JSON:
        prompts = {
            name: self._optional(event[name]) for name in ("prompt_override", "instructions") if name in event
        }
        if any(event[name] != text for name, text in prompts.items()):
            self._changed_prompts.add(event["trace_id"])
        reply, _ = self._part_of_reply(event["trace_id"], "delta", "")
        return prompts | {"offset": reply.place_of(min(event.get("offset", 0), len(reply.original)))}

    def _part_of_reply(self, trace_id: str, kind: str, text: str) -> tuple[RedactedText, int]:
        """The run's texts of that kind as one text, and where the next of them begins."""
        start = self._seen[trace_id, kind]
        self._seen[trace_id, kind] += len(text)
        return self._replies[trace_id, kind], start

    def _joined_replies(self) -> Iterator[tuple[tuple[str, str], RedactedText]]:
        """Of each run the text of its rounds: by what it is stored as, and by the text itself."""
        parts: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"delta": [], "block": []})
        for event in self._events:
            of_run = parts[event["trace_id"]]
            match _name_of(event):
                case "delta":
                    of_run["delta"].append(event["text"])
                case "model_replied":
                    of_run["block"] += (
                        each["text"] for each in event["blocks"] if each.get("type") == "text"
                    )
                case _:
                    pass
        for trace_id, kinds in parts.items():
            by_text: dict[str, list[Sequence[str]]] = defaultdict(list)
            for each in kinds.values():
                by_text["".join(each)].append(each)
            for text, divisions in by_text.items():
                found = self._values.joined(*divisions)
                yield (trace_id, text), found
                yield from (((trace_id, kind), found) for kind in kinds if "".join(kinds[kind]) == text)

    def _snippet(self, source_id: str, snippet: str) -> str:
        """As a part of its passage, which is known by its words: the snippet has its own blanks."""
        passage = " ".join(self._case.passages.get(source_id, "").split())
        words = snippet.strip("…")
        start = passage.find(words)
        if start < 0 or not words:
            return self._values.text(snippet)
        end = start + len(words)
        whole = self._values.joined((passage[:start], words, passage[end:]))
        before = "…" if snippet.startswith("…") else ""
        after = "…" if snippet.endswith("…") else ""
        return f"{before}{whole.excerpt(start, end)}{after}"


def _tools_of(stored: Iterable[JSON]) -> Mapping[str, str]:
    """The tool of each call, and of each approval."""
    tools: dict[str, str] = {}
    for event in stored:
        match _name_of(event):
            case "tool_called":
                tools[event["call_id"]] = event["name"]
            case "approval_requested" | "elicitation_requested":
                tools[event["approval_id"]] = tools.get(event["call_id"], "")
            case _:
                pass
    return tools


def _name_of(event: JSON) -> str:
    """`tool_called`, of any version."""
    return str(event["type"]).partition(".")[0]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else wire.encode(value).decode()
