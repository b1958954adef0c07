"""What the recorded replies of a suite have in common, and the evaluators that need no setting because of it.

What nearly all replies of a kind share is a rule of their agent's prompt more often than not. And how alike
replies of different cases are says how alike two wordings of one reply are at least.
"""

import hashlib
import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, ClassVar, Literal

import msgspec

from evals.judging.run_evaluator import EvaluationReason, RunContext, RunEvaluator, passed_if, recorded
from evals.judging.shared_words import overlap, words
from experiments.comparison import counted_overlap

_MOST_REPLIES = 300
"""Of a suite, chosen by the hashes of their cases' ids: the same for every run of it."""
_MOST_PAIRED = 40
_LEAST_REPLIES = 10
"""Different ones of a slice, for what they share to be a rule and no chance."""
_SHARED = 0.9
_PHRASE_WORDS = 3
_LOWEST = 0.1
"""The share of pairs of recorded replies that may be less alike than a reply and its recorded one."""

Slice = tuple[str, str]
Phrase = tuple[str, ...]
_ALL: Slice = ("", "")


class RecordedReply(msgspec.Struct, frozen=True):
    case_id: str
    slices: Mapping[str, str]
    content: str


class RecordedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """By slice, of which _ALL is one: the phrases that nearly all of its replies share, and how alike all but
    the least alike pairs of them are.
    """

    phrases: Mapping[Slice, frozenset[Phrase]] = {}
    likeness: Mapping[Slice, float] = {}

    def phrases_of(self, slices: Mapping[str, str]) -> frozenset[Phrase]:
        return frozenset().union(*(self.phrases.get(each, ()) for each in _keys(slices)))

    def likeness_of(self, slices: Mapping[str, str]) -> float:
        return max((self.likeness.get(each, 0.0) for each in _keys(slices)), default=0.0)


def profile_of(replies: Iterable[RecordedReply]) -> RecordedProfile:
    """Takes any number of replies; holds a sample of them."""
    sample = heapq.nsmallest(_MOST_REPLIES, (each for each in replies if each.content.strip()), key=_rank)
    texts: dict[Slice, dict[Phrase, None]] = defaultdict(dict)  # each text once, in the order of the sample
    for each in sample:
        spelled = tuple(words(each.content))
        for key in _keys(each.slices):
            texts[key][spelled] = None
    large = {key: list(each) for key, each in texts.items() if len(each) >= _LEAST_REPLIES}
    return RecordedProfile(
        phrases={key: _shared(each) for key, each in large.items()},
        likeness={key: _likeness(each[:_MOST_PAIRED]) for key, each in large.items()},
    )


def _keys(slices: Mapping[str, str]) -> list[Slice]:
    return [_ALL, *slices.items()]


def _rank(reply: RecordedReply) -> bytes:
    return hashlib.sha256(reply.case_id.encode()).digest()


def _shared(texts: Sequence[Phrase]) -> frozenset[Phrase]:
    having = Counter(phrase for each in texts for phrase in _phrases(each))
    return frozenset(phrase for phrase, number in having.items() if number >= _SHARED * len(texts))


def _phrases(spelled: Phrase) -> set[Phrase]:
    return {spelled[at : at + _PHRASE_WORDS] for at in range(len(spelled) - _PHRASE_WORDS + 1)}


def _likeness(texts: Sequence[Phrase]) -> float:
    counted = [Counter(each) for each in texts]
    found = sorted(counted_overlap(one, other) for one, other in combinations(counted, 2))
    return found[int(_LOWEST * len(found))]


@dataclass(repr=False, kw_only=True)
class OfProfile(RunEvaluator):
    """`profile` is of the suite's recorded replies; it is no option of `suite.yaml`."""

    profile: RecordedProfile = field(default=RecordedProfile(), init=False)

    name: ClassVar[str] = ""


@dataclass(repr=False, kw_only=True)
class Phrases(OfProfile):
    """What nine of ten different recorded replies say is said again: nine of all, or of a slice of ten at
    least. The value is the share of it, in parts of three words.
    """

    name: ClassVar[str] = "phrases"
    passes_from: ClassVar[float] = 0.75

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        expected = self.profile.phrases_of(ctx.metadata or {})
        kept = expected & _phrases(tuple(words(ctx.output.content)))
        if len(kept) == len(expected):
            return EvaluationReason(1.0)
        share = len(kept) / len(expected)
        lost = " ".join(min(expected - kept))
        return EvaluationReason(share, f"{1 - share:.0%} of what replies have in common is lost: … {lost} …")


@dataclass(repr=False, kw_only=True)
class Overlap(OfProfile):
    """The share of words that the reply has in common with the recorded one is so large; "recorded": at least
    what nine of ten pairs of recorded replies of its slices have in common.
    """

    at_least: Literal["recorded"] | Annotated[float, msgspec.Meta(ge=0, le=1)] = "recorded"

    name: ClassVar[str] = "overlap"
    tolerated_drop: ClassVar[float] = 0.15

    @property
    def compares(self) -> bool:
        return True

    def evaluate(self, ctx: RunContext) -> EvaluationReason:
        least = self.at_least
        if least == "recorded":
            least = self.profile.likeness_of(ctx.metadata or {})
        share = overlap(ctx.output.content, recorded(ctx).content)
        return passed_if(
            share >= least, f"{share:.0%} of the words are the recorded reply's, not {least:.0%}"
        )


KINDS: tuple[type[RunEvaluator], ...] = (Phrases, Overlap)
