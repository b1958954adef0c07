"""Evaluate an agent's runs by `pydantic-evals`. The fields of an evaluator are its options in `suite.yaml`.

The output is the reply, `expected_output` the recorded one. The task (`suite_run`) sets the attribute `calls`
and the metrics `tokens`, `seconds` and, if prices are known, `cost`; the metadata is the recorded run.
`Equals`, `EqualsExpected`, `Contains` and `LLMJudge` are those of pydantic-evals.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

from agentchat.contracts import wire
from agentchat.contracts.replay_messages import AskedTool
from agentchat.evals.compared_run import compute_overlap, format_call
from agentchat.evals.language_detection import LANGUAGES, UNDETERMINED, are_same, detect_language

_WORD = re.compile(r"\w+")
_NUMBERING = re.compile(r"\[\d{1,4}\]|^\s*\d{1,3}[.)]\s", re.MULTILINE)
_CITED = re.compile(r"\[(\d{1,4})\]")
_MOST_WORDS = 5_000
_ALIKE = 0.5
"""The share of common words by which texts of several words count as the same argument."""
_SHARED = 0.9
_LEAST_REPLIES = 10
"""Different recorded replies needed for their common phrases to be a rule, not chance."""
_PHRASE_WORDS = 3
_MOST_REASON = 500

Phrase = tuple[str, ...]


@dataclass
class CaseInput:
    """The message of a run, and the `earlier` messages."""

    case_id: str
    message: str
    earlier: list[str] = field(default_factory=list)


@dataclass
class RecordedRun:
    """The recorded run without its reply. `passages` is the number of its sources."""

    calls: list[AskedTool] = field(default_factory=list)
    passages: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    cost: float | None = None


Context = EvaluatorContext[CaseInput, str, RecordedRun]


@dataclass(repr=False, kw_only=True)
class RunEvaluator(Evaluator[CaseInput, str, RecordedRun]):
    """Base of our evaluators. `evaluation_name` tells several of one kind apart in reports."""

    evaluation_name: str | None = None

    def get_default_evaluation_name(self) -> str:
        """Return the name in reports."""
        return self.evaluation_name or self.get_serialization_name()

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        raise NotImplementedError


@dataclass(repr=False, kw_only=True)
class ToolCalls(RunEvaluator):
    """The run called the tools that it should, and no other.

    `recorded`: "equal", the recorded calls and no more; "subset", those at least; "ignored". `arguments`:
    "exact"; "alike", where texts of several words need to share half of them; "ignored". `expected` are calls
    that every run makes ({name, arguments}), `forbidden` names of tools that none calls. The value is the
    share of calls that are as they should be.
    """

    recorded: Literal["equal", "subset", "ignored"] = "equal"
    arguments: Literal["exact", "alike", "ignored"] = "alike"
    expected: list[dict[str, Any]] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        made: list[AskedTool] = ctx.attributes.get("calls", [])
        if wrong := [format_call(each) for each in made if each.name in self.forbidden]:
            return _build_reason(0.0, f"forbidden: {wrong[0]}")
        if missing := [each for each in self.expected if not any(_matches_call(each, call) for call in made)]:
            return _build_reason(
                0.0, f"no call of {missing[0].get('name')} with {missing[0].get('arguments', {})}"
            )
        if self.recorded == "ignored":
            return _build_reason(1.0)
        before = _get_recorded(ctx).calls
        lost, more = self._match_calls(before, made)
        if self.recorded == "subset":
            more = []
        if not lost and not more:
            return _build_reason(1.0)
        matched = len(before) - len(lost)
        lines = [f"missing call: {format_call(each)}" for each in lost] + [
            f"extra call: {format_call(each)}" for each in more
        ]
        return _build_reason(2 * matched / (2 * matched + len(lost) + len(more)), "; ".join(lines))

    def _match_calls(
        self, before: Sequence[AskedTool], made: Sequence[AskedTool]
    ) -> tuple[list[AskedTool], list[AskedTool]]:
        """Match equal calls first, so that none takes what fits another one better."""
        lost, more = list(before), list(made)
        for is_match in (_is_equal, self._is_same):
            for call in list(lost):
                match = next((each for each in more if is_match(call, each)), None)
                if match is not None:
                    lost = [each for each in lost if each is not call]
                    more = [each for each in more if each is not match]
        return lost, more

    def _is_same(self, one: AskedTool, other: AskedTool) -> bool:
        match self.arguments:
            case "ignored":
                return one.name == other.name
            case "exact":
                return _is_equal(one, other)
            case "alike":
                return one.name == other.name and are_alike(one.input, other.input)


@dataclass(repr=False, kw_only=True)
class Language(RunEvaluator):
    """The reply is written in this language (ISO 639, "de"); without one, in the recorded reply's.

    A reply in which no language is found, such as a number, passes.
    """

    code: str | None = None

    def __post_init__(self) -> None:
        if self.code not in (None, *LANGUAGES):
            raise ValueError(f"`code` is none of {', '.join(LANGUAGES)}")

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        wanted = self.code or detect_language(_get_expected(ctx))
        found = detect_language(ctx.output)
        same = UNDETERMINED in (wanted, found) or are_same(wanted, found)
        return _build_reason(same, f"the reply is in {found}, not in {wanted}")


@dataclass(repr=False, kw_only=True)
class Phrases(RunEvaluator):
    """The reply has the phrases that nine of ten different recorded replies have.

    Such phrases mostly stem from a rule of the prompt. The value is the share of them, in parts of three
    words. `learn` is called with the recorded replies.
    """

    shared: frozenset[Phrase] = field(default=frozenset(), init=False)

    def learn(self, replies: Iterable[str]) -> None:
        """Find the phrases that nearly all of the replies share."""
        texts = {tuple(split_words(each)) for each in replies if each.strip()}
        having = Counter(phrase for each in texts for phrase in _find_phrases(each))
        enough = len(texts) >= _LEAST_REPLIES
        self.shared = frozenset(
            phrase for phrase, number in having.items() if enough and number >= _SHARED * len(texts)
        )

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        lost = self.shared - _find_phrases(tuple(split_words(ctx.output)))
        if not lost:
            return _build_reason(1.0)
        share = 1 - len(lost) / len(self.shared)
        return _build_reason(
            share, f"{1 - share:.0%} of what replies have in common is lost: … {' '.join(min(lost))} …"
        )


@dataclass(repr=False, kw_only=True)
class Facts(RunEvaluator):
    """The numbers, dates and ids of the recorded reply, which are its words with a digit, are in the reply.

    The value is their share.
    """

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        wanted = find_facts(_get_expected(ctx))
        lost = wanted - find_facts(ctx.output)
        if not lost:
            return _build_reason(1.0)
        share = 1 - len(lost) / len(wanted)
        return _build_reason(
            share, f"{len(lost)} of {len(wanted)} are missing, such as {_shorten(min(lost))}"
        )


@dataclass(repr=False, kw_only=True)
class CitedSources(RunEvaluator):
    """The reply cites sources, as `[1]`, and none that it was not given.

    `at_least`: this number; without it at least one, if the recorded reply cites any.
    """

    at_least: int | None = None

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        cited, before = _find_citations(ctx.output), _find_citations(_get_expected(ctx))
        given = _get_recorded(ctx).passages
        if given and (unknown := [each for each in cited - before if each > given]):
            return _build_reason(False, f"the reply cites [{min(unknown)}], and there were {given} sources")
        least = bool(before) if self.at_least is None else self.at_least
        return _build_reason(len(cited) >= least, f"the reply cites {len(cited)}, not {least:d}")


@dataclass(repr=False, kw_only=True)
class NotContains(RunEvaluator):
    """The reply has none of these texts, in capital or small letters."""

    values: list[str]

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        folded = ctx.output.casefold()
        found = [each for each in self.values if each.casefold() in folded]
        return _build_reason(not found, f"the reply has {', '.join(map(_shorten, found))}")


@dataclass(repr=False, kw_only=True)
class Regex(RunEvaluator):
    """The reply matches a regular expression somewhere; with `absent` nowhere."""

    pattern: str
    absent: bool = False

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"`pattern` is not a regular expression: {error}") from None

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        found = re.search(self.pattern, ctx.output)
        if self.absent:
            return _build_reason(found is None, f"the reply has {_shorten(found[0] if found else '')}")
        return _build_reason(found is not None, f"nothing in the reply matches {_shorten(self.pattern)}")


@dataclass(repr=False, kw_only=True)
class JsonSchema(RunEvaluator):
    """The reply is JSON that satisfies a schema (draft 2020-12)."""

    schema: dict[str, Any]

    def __post_init__(self) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError

        try:
            Draft202012Validator.check_schema(self.schema)
        except SchemaError as error:
            raise ValueError(f"`schema` is not a JSON Schema: {error.message}") from None

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import best_match
        from referencing import Registry

        try:
            value = msgspec.json.decode(ctx.output)
        except (msgspec.DecodeError, RecursionError):
            return _build_reason(False, "the reply is not JSON")
        validator = Draft202012Validator(self.schema, registry=Registry())  # which fetches nothing
        error = best_match(validator.iter_errors(value))
        return _build_reason(error is None, f"{error.json_path}: {error.message}" if error else "")


@dataclass(repr=False, kw_only=True)
class Length(RunEvaluator):
    """The reply's number of characters is within bounds, or within multiples of the recorded reply's."""

    at_least: int = 0
    at_most: int | None = None
    at_least_times: float = 0.0
    at_most_times: float | None = None

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        found, before = len(ctx.output), len(_get_expected(ctx))
        low = max(self.at_least, self.at_least_times * before)
        high = min(
            float("inf") if self.at_most is None else self.at_most,
            float("inf") if self.at_most_times is None else self.at_most_times * before,
        )
        return _build_reason(low <= found <= high, f"the reply has {found:,} characters")


@dataclass(repr=False, kw_only=True)
class AtMost(RunEvaluator):
    """The run used at most this much, or this multiple of the recorded run; seconds are without tools."""

    figure: Literal["tokens", "seconds", "cost"]
    value: float | None = None
    times: float | None = None

    def __post_init__(self) -> None:
        if self.value is self.times is None:
            raise ValueError("`value` or `times` is needed")

    def get_default_evaluation_name(self) -> str:
        """Return the name in reports."""
        return self.evaluation_name or self.figure

    def evaluate(self, ctx: Context) -> EvaluationReason:
        """Judge a run."""
        if self.figure not in ctx.metrics:
            raise ValueError("no price is known of the model")
        bounds = [] if self.value is None else [self.value]
        if self.times is not None:
            before = getattr(_get_recorded(ctx), self.figure)
            if before is None:
                raise ValueError("no price is known of the recorded model")
            bounds.append(self.times * before)
        found = ctx.metrics[self.figure]
        return _build_reason(found <= min(bounds), f"{found:,.6g}, more than {min(bounds):,.6g}")


OWN: tuple[type[RunEvaluator], ...] = (
    *(ToolCalls, Language, Phrases, Facts, CitedSources, NotContains, Regex, JsonSchema, Length, AtMost),
)
DEFAULTS: tuple[Callable[[], RunEvaluator], ...] = (ToolCalls, Language, Phrases, Facts, CitedSources)
"""The evaluators of a suite that names none."""


def split_words(text: str) -> list[str]:
    """Split a text into words in small letters, the first of a long text."""
    return _WORD.findall(text.casefold())[:_MOST_WORDS]


def find_facts(text: str) -> set[str]:
    """Find words with a digit, leaving out numbers of cited sources and of list items."""
    return {each for each in split_words(_NUMBERING.sub(" ", text)) if any(map(str.isdigit, each))}


def are_alike(one: Any, other: Any) -> bool:
    """Return True if JSON values are equal, or texts of several words share half of them."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(are_alike(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(are_alike, one, other))
    if isinstance(one, str) and isinstance(other, str) and " " in one.strip() and other.strip():
        return compute_overlap(Counter(split_words(one)), Counter(split_words(other))) >= _ALIKE
    return wire.encode_canonical(one) == wire.encode_canonical(other)


def _is_equal(one: AskedTool, other: AskedTool) -> bool:
    return one.name == other.name and wire.encode_canonical(one.input) == wire.encode_canonical(other.input)


def _matches_call(expected: dict[str, Any], call: AskedTool) -> bool:
    return expected.get("name") == call.name and all(
        name in call.input and wire.encode_canonical(call.input[name]) == wire.encode_canonical(value)
        for name, value in expected.get("arguments", {}).items()
    )


def _get_recorded(ctx: Context) -> RecordedRun:
    return ctx.metadata or RecordedRun()


def _get_expected(ctx: Context) -> str:
    return ctx.expected_output or ""


def _find_citations(content: str) -> set[int]:
    return {int(each) for each in _CITED.findall(content)}


def _find_phrases(spelled: Phrase) -> set[Phrase]:
    return {spelled[at : at + _PHRASE_WORDS] for at in range(len(spelled) - _PHRASE_WORDS + 1)}


def _build_reason(value: bool | float, reason: str = "") -> EvaluationReason:
    """Return the value, with `reason` if it did not pass."""
    return EvaluationReason(float(value), None if value == 1 else reason[:_MOST_REASON])


def _shorten(text: str, most: int = 80) -> str:
    return repr(text if len(text) <= most else text[: most - 1] + "…")
