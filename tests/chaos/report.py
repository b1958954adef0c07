"""What a run came to, in a terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tests.chaos.checker import INVARIANTS, judge, why_invalid
from tests.chaos.checker.validity import done_ratio
from tests.chaos.checker.view import View
from tests.chaos.records import History, Violation

_SHOWN = 20


class Outcome(NamedTuple):
    """What a run came to. `name`: of the folder in which its history is saved, "" for none."""

    name: str
    history: History
    text: str
    failed: bool
    invalid: Sequence[str]


def outcome_of(
    name: str,
    history: History,
    *,
    text: str = "",
    failed: bool = False,
    invalid: Sequence[str] | None = None,
) -> Outcome:
    """A history, judged; it has failed for violations, or where its caller says so.

    `text` comes after the report, `invalid` is in the place of its own reasons.
    """
    violations, left_out = judge(history)
    invalid = why_invalid(history) if invalid is None else invalid
    lines = [*_figures(history), *_describe_violations(violations)]
    if history.lost_conversations or left_out:
        explained = _counts(Counter(each.invariant for each in left_out)) or "nothing"
        lines.append(
            f"conversations that lost events: {len(history.lost_conversations)}; left out: {explained}"
        )
    lines += [_verdict(violations, invalid), *filter(None, [text])]
    return Outcome(name, history, "\n".join(lines), failed or bool(violations), invalid)


def _figures(history: History) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in history.versions.items())
    hit = [fault for fault in history.faults if fault.hit]
    kinds: dict[str, Counter[str]] = {}
    for fault in sorted(hit, key=lambda each: each.component):
        kinds.setdefault(fault.component, Counter())[fault.kind] += 1
    statuses = Counter(str(each.status or each.end) for each in history.exchanges)
    return [
        f"seed {history.seed}, commit {history.commit} ({versions})",
        f"{len(history.asks)} messages in {len(history.exchanges)} requests, "
        f"{len(history.model)} model calls, {len(history.tools)} tool runs, "
        f"{len(history.events)} events, {history.seconds:.0f} s",
        f"{len(hit)} faults hit, {len(history.faults) - len(hit)} found nothing",
        *(f"  {name}: {_counts(found)}" for name, found in kinds.items()),
        f"answers: {_counts(dict(sorted(statuses.items())))}; done {done_ratio(View(history)):.1%}",
    ]


def _describe_violations(violations: Sequence[Violation]) -> list[str]:
    found = Counter(each.invariant for each in violations)
    left = len(violations) - _SHOWN
    return [
        f"violations: {_counts({name: found[name] for name in INVARIANTS[:-1]})}",
        *(f"  {each.invariant} {each.of}: {each.evidence}" for each in violations[:_SHOWN]),
        *([f"  and {left} more"] if left > 0 else []),
    ]


def _verdict(violations: Sequence[Violation], invalid: Sequence[str]) -> str:
    if violations:
        return f"FAILED: {len(violations)} violations"
    return f"INVALID: {'; '.join(invalid)}" if invalid else "passed: 0 violations"


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())
