"""What a run came to, in a terminal and as JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from tests.chaos.checker import INVARIANTS, judge, why_invalid
from tests.chaos.checker.validity import done_ratio
from tests.chaos.checker.view import View
from tests.chaos.records import History, Violation

_SHOWN = 20


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    seed: int
    commit: str
    versions: dict[str, str]
    seconds: float
    requests: int
    exchanges: int
    model_calls: int
    tool_runs: int
    events: int
    faults: dict[str, dict[str, int]]
    """Those that hit, by component and kind."""
    missed: int
    """Faults that found nothing to hit."""
    statuses: dict[str, int]
    done: float
    violations: list[Violation]
    invalid: list[str]
    lost_conversations: list[str]
    left_out: list[Violation]
    """Those that lost events explain."""

    def by_invariant(self) -> dict[str, int]:
        found = Counter(violation.invariant for violation in self.violations)
        return {name: found[name] for name in INVARIANTS[:-1]}

    def _loss(self) -> str:
        found = Counter(violation.invariant for violation in self.left_out)
        return f"conversations that lost events: {len(self.lost_conversations)}; left out: " + (
            _counts(found) or "nothing"
        )

    @property
    def verdict(self) -> str:
        if self.violations:
            return f"FAILED: {len(self.violations)} violations"
        return f"INVALID: {'; '.join(self.invalid)}" if self.invalid else "passed: 0 violations"

    def text(self) -> str:
        """For a terminal."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        hit = sum(sum(kinds.values()) for kinds in self.faults.values())
        lines = [
            f"seed {self.seed}, commit {self.commit} ({versions})",
            f"{self.requests} messages in {self.exchanges} requests, {self.model_calls} model calls, "
            f"{self.tool_runs} tool runs, {self.events} events, {self.seconds:.0f} s",
            f"{hit} faults hit, {self.missed} found nothing",
            *(f"  {name}: {_counts(kinds)}" for name, kinds in self.faults.items()),
            f"answers: {_counts(self.statuses)}; done {self.done:.1%}",
            f"violations: {_counts(self.by_invariant())}",
            *(f"  {one.invariant} {one.of}: {one.evidence}" for one in self.violations[:_SHOWN]),
            *([f"  and {left} more"] if (left := len(self.violations) - _SHOWN) > 0 else []),
            *([self._loss()] if self.lost_conversations or self.left_out else []),
            self.verdict,
        ]
        return "\n".join(lines)


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())


def report_of(history: History) -> Report:
    """Judge a history."""
    view, judgement = View(history), judge(history)
    faults: dict[str, Counter[str]] = {}
    for fault in history.faults:
        if fault.hit:
            faults.setdefault(fault.component, Counter())[fault.kind] += 1
    return Report(
        seed=history.seed,
        commit=history.commit,
        versions=history.versions,
        seconds=history.seconds,
        requests=len(history.asks),
        exchanges=len(history.exchanges),
        model_calls=len(history.model),
        tool_runs=len(history.tools),
        events=len(history.events),
        faults={name: dict(faults[name]) for name in sorted(faults)},
        missed=sum(not fault.hit for fault in history.faults),
        statuses=dict(sorted(Counter(str(each.status or each.end) for each in history.exchanges).items())),
        done=round(done_ratio(view), 4),
        violations=judgement.violations,
        invalid=why_invalid(history),
        lost_conversations=history.lost_conversations,
        left_out=judgement.left_out,
    )


class Outcome(NamedTuple):
    """What a run came to. `name`: of the folder in which `files` are saved as JSON, "" for none."""

    name: str
    text: str
    failed: bool
    invalid: Sequence[str]
    files: Mapping[str, object]


def outcome_of(
    name: str,
    history: History,
    *,
    text: str = "",
    failed: bool = False,
    invalid: Sequence[str] | None = None,
    **files: object,
) -> Outcome:
    """A history, judged; it has failed for violations, or where its caller says so.

    `text` comes after the report, `invalid` is in the place of its own reasons.
    """
    report = report_of(history)
    if invalid is not None:
        report = msgspec.structs.replace(report, invalid=[*invalid])
    told = "\n".join(filter(None, (report.text(), text)))
    saved = {"report": report, "history": history, **files}
    return Outcome(name, told, failed or bool(report.violations), report.invalid, saved)
