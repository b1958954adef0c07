"""A conversation at a version, drawn for people: its runs, and of each the rounds, tools and sources."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from contracts.events import ContextCompacted
from contracts.values import Source, Usage
from conversations.aggregate.calls import Call, CallApproval
from conversations.aggregate.conversation import Run
from conversations.aggregate.rounds import Round
from conversations.queries.time_travel import Past
from ops.chat.safe import clean, compact, one_line

_STATES = {"completed": "green", "failed": "red", "cancelled": "yellow", "running": "cyan"}
_INPUT, _OUTPUT = 400, 2000
_ANSWERS = {"approved": "answered", "denied": "declined"}
_Spans = dict[tuple[str, int | None], tuple[int, int]]
"""By trace and round; None: the run."""


def draw(console: Console, past: Past) -> None:
    """The whole of it; texts are others' and drive no terminal."""
    if console.is_terminal:
        _draw(console, past)
        return
    with console.capture() as captured:
        _draw(console, past)
    for line in captured.get().splitlines():
        console.file.write(line.rstrip() + "\n")


def _draw(console: Console, past: Past) -> None:
    found = past.conversation
    place = f"version {found.version:,}" + (f" of {past.head:,}" if found.version < past.head else "")
    _line(console, 0, (f"conversation {found.conversation_id}", "bold"), (f"  {place}", ""))
    _line(console, 0, (f"account {clean(found.account_id or '-')}, begun {found.started_at or '-'}", "dim"))
    spans = _spans(past)
    for number, run in enumerate(found.runs, start=1):
        console.print()
        _draw_run(console, number, run, spans)


def draw_sources(console: Console, sources: Sequence[Source], *, indent: int) -> None:
    """A line each."""
    for source in sources:
        what = f"[{source.index}] {one_line(source.title, 100)}  {one_line(source.url, 200)}"
        _line(console, indent, (what, ""), (f"  score {source.score:.3g}", "dim"))


def draw_summary(console: Console, compacted: ContextCompacted) -> None:
    """What the model was shown in the place of earlier runs."""
    what = f"  of all up to version {compacted.through_version:,}, by {one_line(compacted.model, 100)}, "
    _line(console, 0, ("summary", "bold"), (what + tokens(compacted.usage), ""))
    console.print(Padding(Text(clean(compacted.summary)), (0, 0, 0, 4), expand=False))


def draw_call(console: Console, call: Call, *, indent: int) -> None:
    """What was asked, what persons decided about it, and what came back."""
    asked = f"{one_line(call.name, 100)}({compact(call.input, _INPUT)})"
    was_run = call.output is not None and call.may_run
    _line(console, indent, (asked, "cyan"), (f"  {call.ms:,} ms" if was_run else "", "dim"))
    for approval in call.approvals:
        for text, style in _decision(approval):
            _line(console, indent + 2, (text, style))
    if call.output is None:
        _line(console, indent + 2, ("no result yet", "yellow"))
    else:
        _line(console, indent + 2, (one_line(call.output, _OUTPUT), "red" if call.is_error else "dim"))


def _decision(approval: CallApproval) -> Iterator[tuple[str, str]]:
    """What was asked of a person and when, who decided what and when, and what they changed."""
    requested, decided, asked = approval.requested, approval.decided, approval.asked
    what = "approval requested" if asked is None else f"the tool asks: {one_line(asked.message, _INPUT)}"
    yield f"{what}  {requested.at}  approval {requested.approval_id}", "yellow"
    if decided is None:
        yield f"waiting for a decision until {requested.expires_at}", "yellow"
        return
    by = (
        "the service" if decided.by.kind == "service" else f"{decided.by.kind} {one_line(decided.by.id, 100)}"
    )
    behalf = f" for {one_line(decided.on_behalf_of, 100)}" if decided.on_behalf_of else ""
    reason = f": {one_line(decided.reason, _INPUT)}" if decided.reason else ""
    verdict = decided.decision if asked is None else _ANSWERS.get(decided.decision, decided.decision)
    style = "green" if decided.decision == "approved" else "red"
    yield f"{verdict} by {by}{behalf}  {decided.at}{reason}", style
    if decided.input is not None:
        verb = "run with" if asked is None else "answered"
        yield f"{verb} {compact(decided.input, _INPUT)}", style


def tokens(usage: Usage) -> str:
    """`469 tokens (412 in, 57 out, 0 read from the provider's cache, 0 written to it)`, without the zeros."""
    parts = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} read from the cache")
    if usage.cache_creation_tokens:
        parts.append(f"{usage.cache_creation_tokens:,} written to it")
    return f"{usage.total:,} tokens ({', '.join(parts)})"


def _draw_run(console: Console, number: int, run: Run, spans: _Spans) -> None:
    first, last = spans[run.trace_id, None]
    _line(
        console,
        0,
        (f"run {number}  ", "bold"),
        (run.state, _STATES[run.state]),
        (f"  versions {first:,} to {last:,}  {run.requested_at}  trace {run.trace_id}", "dim"),
    )
    attempts = f", attempt {run.attempt}" if run.attempt > 1 else ""
    made_by = f"agent {clean(run.agent_id)} version {run.agent_version}, {one_line(run.model, 100)}"
    _line(console, 2, (f"{made_by}, {run.form}{attempts}", "dim"))
    _text(console, "user", run.user_text)
    if run.sources is not None:
        _line(console, 2, (f"{len(run.sources)} sources", "bold"))
        draw_sources(console, run.sources, indent=4)
    if run.compacted is not None:
        draw_summary(console, run.compacted)
    for each in run.rounds:
        _draw_round(console, each, spans[run.trace_id, each.number])
    _draw_end(console, run)


def _draw_round(console: Console, each: Round, span: tuple[int, int]) -> None:
    first, last = span
    ended = "not ended" if each.blocks is None else f"{each.stop_reason}, {tokens(each.usage)}"
    versions = f"  versions {first:,} to {last:,}  "
    _line(console, 2, (f"round {each.number}", "bold"), (versions + one_line(ended, 200), "dim"))
    if each.text:
        console.print(Padding(Text(clean(each.text).rstrip()), (0, 0, 0, 4), expand=False))
    for call in each.calls:
        draw_call(console, call, indent=4)


def _draw_end(console: Console, run: Run) -> None:
    if run.reply is not None:
        _line(console, 2, ("saved", "bold"), (f"  message {run.reply.id}, {tokens(run.usage)}", "dim"))
        if not run.rounds:
            _text(console, "assistant", run.reply.content)
    elif run.state == "failed":
        why = f"  {run.code}: {one_line(run.detail or '', 500)}  {tokens(run.usage)}"
        _line(console, 2, ("failed", "bold red"), (why, ""))
    elif run.state == "cancelled":
        _line(console, 2, ("cancelled", "bold yellow"), (f"  {tokens(run.usage)}", "dim"))


def _text(console: Console, who: str, text: str) -> None:
    _line(console, 2, (who, "bold"))
    console.print(Padding(Text(clean(text)), (0, 0, 0, 4), expand=False))


def _line(console: Console, indent: int, *parts: tuple[str, str]) -> None:
    console.print(Padding(Text.assemble(*parts), (0, 0, 0, indent), expand=False))


def _spans(past: Past) -> _Spans:
    """The first and the last version of each run's events, and of those of each of its rounds."""
    spans: _Spans = {}
    for entry in past.entries:
        event = entry.event
        for key in {(event.trace_id, None), (event.trace_id, getattr(event, "round", None))}:
            spans[key] = (spans.get(key, (entry.version, 0))[0], entry.version)
    return spans
