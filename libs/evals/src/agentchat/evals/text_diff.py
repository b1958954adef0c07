"""Two runs side by side: the words of their replies, their tool calls, or both as lines of a unified diff."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.replay_messages import AskedTool
from agentchat.evals.compared_run import RunOutput, call_line

_WORDS = re.compile(r"\S+\s*|\s+")
_SENTENCES = re.compile(r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+")
_MOST_WORDS = 3_000
"""Of a reply, for its words to be compared: comparing takes the square of their number."""


class Piece(msgspec.Struct, frozen=True):
    """Consecutive text that both replies have, or one alone: `removed` is in the first, `added` in the
    second.
    """

    kind: Literal["same", "removed", "added"]
    text: str


class CallPair(msgspec.Struct, frozen=True):
    """A call of the first run next to one of the second, of the same round; None where one has no such."""

    before: AskedTool | None
    after: AskedTool | None

    @property
    def same(self) -> bool:
        return self.before is not None and self.after is not None and _key(self.before) == _key(self.after)


def word_diff(before: str, after: str) -> list[Piece]:
    """The pieces of both in their order, whatever stands between words. By sentences where they are long."""
    left, right = _WORDS.findall(before), _WORDS.findall(after)
    if max(len(left), len(right)) > _MOST_WORDS:
        left, right = _SENTENCES.findall(before), _SENTENCES.findall(after)
    bare = [[each.rstrip() for each in texts] for texts in (left, right)]
    matcher = difflib.SequenceMatcher(None, bare[0], bare[1])
    pieces: list[Piece] = []
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "equal":
            pieces.append(Piece("same", "".join(right[other_start:other_end])))
            continue
        if start < end:
            pieces.append(Piece("removed", "".join(left[start:end])))
        if other_start < other_end:
            pieces.append(Piece("added", "".join(right[other_start:other_end])))
    return pieces


def call_pairs(before: Sequence[AskedTool], after: Sequence[AskedTool]) -> list[CallPair]:
    """Round by round: equal calls, then those of one name with other inputs, then what one alone has."""
    rounds = sorted({call.round for call in (*before, *after)})
    return [
        pair
        for number in rounds
        for pair in _paired(
            [call for call in before if call.round == number],
            [call for call in after if call.round == number],
        )
    ]


def unified(before: RunOutput, after: RunOutput) -> str:
    """Calls, then the reply, a sentence a line, in the unified form; "" where both are the same."""
    lines = difflib.unified_diff(_lines(before), _lines(after), "recorded", "replayed", lineterm="", n=1)
    return "\n".join(lines)


def _paired(left: list[AskedTool], right: list[AskedTool]) -> Iterator[CallPair]:
    for is_pair in (_equal, _same_name):
        for call in list(left):
            other = next((each for each in right if is_pair(call, each)), None)
            if other is not None:
                left.remove(call)
                right.remove(other)
                yield CallPair(call, other)
    yield from (CallPair(call, None) for call in left)
    yield from (CallPair(None, call) for call in right)


def _equal(one: AskedTool, other: AskedTool) -> bool:
    return _key(one) == _key(other)


def _same_name(one: AskedTool, other: AskedTool) -> bool:
    return one.name == other.name


def _key(call: AskedTool) -> tuple[str, bytes]:
    return call.name, wire.encode_canonical(call.input)


def _lines(output: RunOutput) -> list[str]:
    sentences = re.sub(r"(?<=[.!?]) (?=\S)", " \n", output.content).split("\n")
    calls: Iterable[str] = map(call_line, output.calls)
    return [*calls, *sentences]
