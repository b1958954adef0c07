"""Compare two runs: the words of their replies, their tool calls, or both as a unified diff."""

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from agentchat.contracts import wire
from agentchat.contracts.replay_messages import AskedTool
from agentchat.evals.compared_run import RunOutput, format_call

_WORDS = re.compile(r"\S+\s*|\s+")
_SENTENCES = re.compile(r"[^.!?\n]*[.!?\n]+\s*|[^.!?\n]+")
_MOST_WORDS = 3_000
"""The longest reply that is compared by words: the time grows with the square of their number."""


class Piece(msgspec.Struct, frozen=True):
    """Consecutive text of both replies, or of one: `removed` is in the first, `added` in the second."""

    kind: Literal["same", "removed", "added"]
    text: str


class CallPair(msgspec.Struct, frozen=True):
    """A call of the first run next to one of the second, of the same round.

    None if one run has no such call.
    """

    before: AskedTool | None
    after: AskedTool | None

    @property
    def same(self) -> bool:
        """True if both runs made the same call."""
        return (
            self.before is not None
            and self.after is not None
            and _get_key(self.before) == _get_key(self.after)
        )


def diff_words(before: str, after: str) -> list[Piece]:
    """Return the pieces of both texts in order, ignoring blanks between words. Long texts by sentences."""
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


def pair_calls(before: Sequence[AskedTool], after: Sequence[AskedTool]) -> list[CallPair]:
    """Pair calls round by round: equal ones, then those of one name, then the rest."""
    rounds = sorted({call.round for call in (*before, *after)})
    return [
        pair
        for number in rounds
        for pair in _match_pairs(
            [call for call in before if call.round == number],
            [call for call in after if call.round == number],
        )
    ]


def diff_runs(before: RunOutput, after: RunOutput) -> str:
    """Return a unified diff of the calls, then of the reply, a sentence a line; "" if both are the same."""
    lines = difflib.unified_diff(
        _list_lines(before), _list_lines(after), "recorded", "replayed", lineterm="", n=1
    )
    return "\n".join(lines)


def _match_pairs(left: list[AskedTool], right: list[AskedTool]) -> Iterator[CallPair]:
    for is_pair in (_is_equal, _has_same_name):
        for call in list(left):
            other = next((each for each in right if is_pair(call, each)), None)
            if other is not None:
                left.remove(call)
                right.remove(other)
                yield CallPair(call, other)
    yield from (CallPair(call, None) for call in left)
    yield from (CallPair(None, call) for call in right)


def _is_equal(one: AskedTool, other: AskedTool) -> bool:
    return _get_key(one) == _get_key(other)


def _has_same_name(one: AskedTool, other: AskedTool) -> bool:
    return one.name == other.name


def _get_key(call: AskedTool) -> tuple[str, bytes]:
    return call.name, wire.encode_canonical(call.input)


def _list_lines(output: RunOutput) -> list[str]:
    sentences = re.sub(r"(?<=[.!?]) (?=\S)", " \n", output.content).split("\n")
    calls: Iterable[str] = map(format_call, output.calls)
    return [*calls, *sentences]
