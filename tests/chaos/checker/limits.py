"""I14: an account gets what its plan allows, and is told when to come again.

The probes at the end do not count: by then the plan has no limits any more.
"""

from collections.abc import Iterator

from tests.chaos.checker.view import View
from tests.chaos.plan import CONCURRENT_RUNS, LIMITED
from tests.chaos.records import Violation


def rate(view: View) -> Iterator[Violation]:
    """I14: at N a minute, N + N·t/60 messages are accepted in t seconds."""
    per_minute = view.history.rate_per_minute
    accepted = sorted(
        (each.began, each.ended)
        for each in view.history.exchanges
        if each.account == LIMITED and each.accepted and not each.probe
    )
    for first in range(len(accepted)):
        for last in range(first, len(accepted)):
            seconds = max(end for _, end in accepted[first : last + 1]) - accepted[first][0]
            allowed = per_minute * (1 + seconds / 60) * _counters(view, accepted[last][1])
            if last - first + 1 > allowed:
                yield _v(f"{last - first + 1} accepted in {seconds:.1f} s, {allowed:.1f} allowed")
                return


def check_concurrent_runs(view: View) -> Iterator[Violation]:
    """I14: no more runs at once than the plan has."""
    steps: list[tuple[float, int]] = []
    probes = {each.ask for each in view.history.exchanges if each.probe}
    for run in view.runs.values():
        if run.trace in view.lost:
            continue  # its end may be lost
        if view.account_of(run.ask) == LIMITED and run.ask not in probes and run.of("run_started"):
            steps += [(run.of("run_started")[0].at, 1), (run.ended, -1)]
    running = 0
    for at, step in sorted(steps):
        running += step
        allowed = CONCURRENT_RUNS * _counters(view, at)
        if running > allowed:
            yield _v(f"{running} runs at once at {at:.2f} s, {allowed} allowed")
            return


def retry_after(view: View) -> Iterator[Violation]:
    """I14: a refusal names whole seconds, one at least."""
    for each in view.history.exchanges:
        told = each.headers.get("retry-after", "")
        if each.status == 429 and not (told.isdecimal() and int(told) >= 1):
            yield _v(f"429 with Retry-After {told!r} for {each.ask}")


def _counters(view: View, until: float) -> int:
    """How many counters an account may have had: each gateway its own while Redis is away, and again
    after.
    """
    lost = [fault for fault in view.history.faults if fault.at <= until and "valkey" in fault.target]
    return 1 if not lost else 3 + len(lost)


def _v(evidence: str) -> Violation:
    return Violation(invariant="I14", of=f"account {LIMITED}", evidence=evidence)
