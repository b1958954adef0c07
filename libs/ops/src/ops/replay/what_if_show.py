"""What `replay what-if` prints: a line a run, what differs, and one line over all; or JSON."""

import sys
from collections.abc import Sequence

import msgspec
from rich.text import Text

from administration.admin_values import Agent
from ops import printing
from ops.output import clean, counted
from ops.replay.what_if_asking import WhatIfOptions
from ops.replay.what_if_compare import Compared, Summary

_HEADINGS = ("TRACE ID", "TOOLS", "ANSWER", "MISSED", "TOKENS", "COST", "SECONDS", "MESSAGE")
_STYLES = {"+": "green", "-": "red", "@": "dim"}
_MESSAGE_CHARACTERS = 60


def as_json(agent: Agent, summary: Summary, done: Sequence[Compared]) -> None:
    """One object; `runs` is a list with all that is known of each."""
    runs = [msgspec.structs.asdict(each) | {"diverges": each.diverges} for each in done]
    printing.as_json({"agent_id": agent.id, "version": agent.version, "summary": summary, "runs": runs})


def table(agent: Agent, summary: Summary, done: Sequence[Compared], wanted: WhatIfOptions) -> None:
    """For people: recorded figures, an arrow, and the replayed ones."""
    runs(done, priced=wanted.prices is not None)
    for each in done:
        _tell_more(each)
    currency = wanted.prices.currency if wanted.prices is not None else ""
    sys.stdout.write(f"{_in_one_line(agent, summary, currency)}\n")
    printing.note("nothing was stored or published, and no limit was used; the model was called")


def runs(done: Sequence[Compared], *, priced: bool) -> None:
    """A run a line; its cost where there are prices."""
    kept = [place for place, heading in enumerate(_HEADINGS) if priced or heading != "COST"]
    rows = [_row(each) for each in done]
    printing.table([_HEADINGS[place] for place in kept], [[row[place] for place in kept] for row in rows])


def _row(run: Compared) -> list[object]:
    before, after = run.recorded, run.replayed
    return [
        run.trace_id,
        _tools(run),
        _answer(run),
        len(run.missed) + run.sources_missed or None,
        _beside(f"{before.tokens:,}", f"{after.tokens:,}"),
        _beside(_money(before.cost), _money(after.cost)),
        _beside(f"{before.seconds:.1f}", f"{after.seconds:.1f}"),
        printing.cell(run.message[:_MESSAGE_CHARACTERS]),
    ]


def _tools(run: Compared) -> str:
    if not run.was_replayed:
        return "-"
    if run.same_tools:
        return f"same ({run.recorded.calls})"
    return f"other ({run.recorded.calls} → {run.replayed.calls})"


def _answer(run: Compared) -> str:
    if not run.was_replayed:
        return "not replayed"
    again = f"failed: {run.code}" if run.outcome == "failed" else run.outcome
    if run.recorded_end != "completed":
        return f"{run.recorded_end} → {again}"
    if run.outcome == "failed":
        return again
    return "same" if run.same_answer else f"{run.alike:.0%} alike"


def _beside(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _money(cost: float | None) -> str:
    return "?" if cost is None else f"{cost:.6f}"


def _tell_more(run: Compared) -> None:
    """What the log lacked and what went wrong, on stderr; what differs, on stdout."""
    for call in run.missed:
        printing.note(f"run {run.trace_id}: the log holds no result of {call}; it was not called")
    if run.sources_missed:
        printing.note(f"run {run.trace_id}: the log holds no retrieval; it was answered without sources")
    if run.outcome != "completed":
        printing.note(f"run {run.trace_id}: {run.detail or run.outcome}")
    if run.diff:
        screen = printing.console()
        screen.print(Text(f"\nrun {run.trace_id}", "bold"))
        for line in run.diff.splitlines():
            screen.print(Text(clean(line), _STYLES.get(line[:1], "")), soft_wrap=True)


def _in_one_line(agent: Agent, summary: Summary, currency: str) -> str:
    before, after = summary.recorded, summary.again
    parts = [
        f"{counted(summary.replayed, 'run')} of {counted(summary.conversations, 'conversation')} by version "
        f"{agent.version}: {summary.diverging:,} came out otherwise ({summary.other_tools:,} in tools, "
        f"{summary.other_answer:,} in the answer), {counted(summary.missed, 'call')} missed, "
        f"{summary.failed:,} failed",
        f"tokens {before.tokens:,} → {after.tokens:,}",
        f"seconds {before.seconds:,.1f} → {after.seconds:,.1f}",
    ]
    if before.cost is not None or after.cost is not None:
        parts.append(f"cost {_money(before.cost)} → {_money(after.cost)} {currency}".rstrip())
    if summary.not_replayed:
        parts.append(f"{summary.not_replayed:,} could not be replayed")
    return "; ".join(parts)
