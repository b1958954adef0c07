"""Evaluators of a reply's text."""

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from evals.judging.run_evaluator import EvaluationReason, RunContext, RunEvaluator, passed_if, recorded, shown
from evals.judging.shared_words import facts_of
from evals.language import LANGUAGES, UNDETERMINED, are_same, language_of

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Texts = Annotated[tuple[_Text, ...], msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=0)]
_CITED = re.compile(r"\[(\d{1,4})\]")


@dataclass(repr=False, kw_only=True)
class Equal(RunEvaluator):
    """The reply is this text; without one, the recorded reply. White space at the ends does not count."""

    text: str | None = None
    ignore_case: bool = False

    name: ClassVar[str] = "equal"
    alone: ClassVar[str] = "text"

    @property
    def compares(self) -> bool:
        return self.text is None

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        wanted = (recorded(ctx).content if self.text is None else self.text).strip()
        found = ctx.output.content.strip()
        if self.ignore_case:
            wanted, found = wanted.casefold(), found.casefold()
        return passed_if(found == wanted, f"the reply is {shown(found)}, not {shown(wanted)}")


@dataclass(repr=False, kw_only=True)
class Contains(RunEvaluator):
    """The reply has each of these texts."""

    text: _Text | None = None
    texts: _Texts | None = None
    ignore_case: bool = True

    name: ClassVar[str] = "contains"

    def __post_init__(self) -> None:
        if (self.text is None) == (self.texts is None):
            raise ValueError("Expected one of `text` and `texts`")

    def found(self, content: str) -> list[str]:
        """Those of the texts that it has."""
        wanted = self.texts or (self.text or "",)
        if not self.ignore_case:
            return [each for each in wanted if each in content]
        folded = content.casefold()
        return [each for each in wanted if each.casefold() in folded]

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        found = self.found(ctx.output.content)
        missing = [each for each in self.texts or (self.text or "",) if each not in found]
        return passed_if(not missing, f"the reply lacks {', '.join(map(shown, missing))}")


@dataclass(repr=False, kw_only=True)
class NotContains(Contains):
    """The reply has none of these texts."""

    name: ClassVar[str] = "not_contains"

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        found = self.found(ctx.output.content)
        return passed_if(not found, f"the reply has {', '.join(map(shown, found))}")


@dataclass(repr=False, kw_only=True)
class Regex(RunEvaluator):
    """The reply matches a regular expression somewhere; with `absent` nowhere."""

    pattern: _Text
    absent: bool = False

    name: ClassVar[str] = "regex"

    def __post_init__(self) -> None:
        try:
            self._compiled = re.compile(self.pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ValueError(f"`pattern` is not a regular expression: {error}") from None

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        found = self._compiled.search(ctx.output.content)
        if self.absent:
            return passed_if(found is None, f"the reply has {shown(found[0]) if found else ''}")
        return passed_if(found is not None, f"nothing in the reply matches {shown(self.pattern)}")


@dataclass(repr=False, kw_only=True)
class JsonSchema(RunEvaluator):
    """The reply is JSON that satisfies a schema (draft 2020-12)."""

    schema: dict[str, Any]

    name: ClassVar[str] = "json_schema"

    def __post_init__(self) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError
        from referencing import Registry

        try:
            Draft202012Validator.check_schema(self.schema)
        except SchemaError as error:
            raise ValueError(f"`schema` is not a JSON Schema: {error.message}") from None
        self._validator = Draft202012Validator(self.schema, registry=Registry())  # which fetches nothing

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        from jsonschema.exceptions import best_match

        try:
            value = msgspec.json.decode(ctx.output.content)
        except (msgspec.DecodeError, RecursionError):
            return passed_if(False, "the reply is not JSON")
        error = best_match(self._validator.iter_errors(value))
        return passed_if(error is None, f"{error.json_path}: {error.message}" if error else "")


@dataclass(repr=False, kw_only=True)
class Language(RunEvaluator):
    """The reply is written in this language (ISO 639, "de"); without one, in the recorded reply's.

    A reply in which no language is found, such as a number, passes.
    """

    code: _Text | None = None

    name: ClassVar[str] = "language"
    alone: ClassVar[str] = "code"

    def __post_init__(self) -> None:
        if self.code not in (None, *LANGUAGES):
            raise ValueError(f"`code` is none of {', '.join(LANGUAGES)}")

    @property
    def compares(self) -> bool:
        return self.code is None

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        wanted = self.code or language_of(recorded(ctx).content)
        found = language_of(ctx.output.content)
        same = UNDETERMINED in (wanted, found) or are_same(wanted, found)
        return passed_if(same, f"the reply is in {found}, not in {wanted}")


@dataclass(repr=False, kw_only=True)
class Length(RunEvaluator):
    """The reply has so many characters, or so many times those of the recorded reply."""

    at_least: _Count | None = None
    at_most: _Count | None = None
    at_least_times: Annotated[float, msgspec.Meta(ge=0)] | None = None
    at_most_times: Annotated[float, msgspec.Meta(gt=0)] | None = None

    name: ClassVar[str] = "length"
    alone: ClassVar[str] = "at_least or at_most"

    def __post_init__(self) -> None:
        if self.at_least is self.at_most is self.at_least_times is self.at_most_times:
            raise ValueError("Expected `at_least`, `at_most`, `at_least_times` or `at_most_times`")

    @property
    def compares(self) -> bool:
        return self.at_least_times is not None or self.at_most_times is not None

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        found, before = len(ctx.output.content), len(_recorded_text(ctx))
        low = max(self.at_least or 0, (self.at_least_times or 0) * before)
        high = min(
            float("inf") if self.at_most is None else self.at_most,
            float("inf") if self.at_most_times is None else self.at_most_times * before,
        )
        return passed_if(low <= found <= high, f"the reply has {found:,} characters")


@dataclass(repr=False, kw_only=True)
class Facts(RunEvaluator):
    """The numbers, dates and ids of the recorded reply, which are its words with a digit, are in the reply.
    The value is their share.
    """

    name: ClassVar[str] = "facts"
    passes_from: ClassVar[float] = 0.5
    tolerated_drop: ClassVar[float] = 0.1

    @property
    def compares(self) -> bool:
        return True

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        wanted = facts_of(recorded(ctx).content)
        lost = wanted - facts_of(ctx.output.content)
        if not lost:
            return EvaluationReason(1.0)
        share = 1 - len(lost) / len(wanted)
        return EvaluationReason(share, f"{len(lost)} of {len(wanted)} are lost, such as {shown(min(lost))}")


@dataclass(repr=False, kw_only=True)
class CitedSources(RunEvaluator):
    """The reply cites sources, as `[1]`, and none that it was not given.

    `cited` "recorded": at least one, where the recorded reply cites any; "same": those that it cites; a
    number: so many at least, whatever was recorded.
    """

    cited: Literal["recorded", "same"] | _Count = field(default="recorded")

    name: ClassVar[str] = "sources"
    alone: ClassVar[str] = "cited: 1"

    @property
    def compares(self) -> bool:
        return isinstance(self.cited, str)

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        cited, before = _citations(ctx.output.content), _citations(_recorded_text(ctx))
        given = ctx.inputs.passages
        unknown = sorted(each for each in cited - before if each > given)
        if given and unknown:
            return passed_if(False, f"the reply cites [{unknown[0]}], and there were {given} sources")
        match self.cited:
            case "same":
                return passed_if(before <= cited, f"the reply cites {len(before & cited)} of {len(before)}")
            case "recorded":
                return passed_if(
                    bool(cited) or not before, "the reply cites no source, the recorded one does"
                )
            case number:
                return passed_if(len(cited) >= number, f"the reply cites {len(cited)}, not {number}")


def _recorded_text(ctx: RunContext) -> str:
    """Of a live run, which was not recorded before, there is none."""
    return "" if ctx.expected_output is None else ctx.expected_output.content


def _citations(content: str) -> set[int]:
    return {int(each) for each in _CITED.findall(content)}


KINDS: tuple[type[RunEvaluator], ...] = (
    Equal, Contains, NotContains, Regex, JsonSchema, Language, Length, Facts, CitedSources,
)  # fmt: skip
