"""Format the lines of `replay show` and `replay why`, cleaned of control characters."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.padding import Padding
from rich.text import Text

from agentchat.contracts.events import ContextCompacted
from agentchat.contracts.text_checks import format_count
from agentchat.contracts.values import Source, Usage
from agentchat.conversations.aggregate.rounds import Call, CallApproval
from agentchat.ops.printing import open_console
from agentchat.ops.terminal_text import clean, format_fields, shorten

_INPUT, _OUTPUT = 400, 2000
_ELICITED = {"approved": "answered", "denied": "declined"}


class Line(NamedTuple):
    """A line with a bold label. A text of several lines is indented as a block."""

    indent: int
    label: str
    text: str = ""
    style: str = ""


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines with their indentation; they are wrapped on a terminal only."""
    screen = open_console()
    for line in lines:
        text = Text.assemble((clean(line.label), "bold"), (clean(line.text), line.style))
        if screen.is_terminal:
            screen.print(Padding(text, (0, 0, 0, line.indent), expand=False))
        else:
            rows = text.plain.split("\n")
            screen.file.writelines(f"{' ' * line.indent}{row}".rstrip() + "\n" for row in rows)


def format_sources(sources: Sequence[Source], indent: int) -> Iterator[Line]:
    """Format each source: index, title, URL, score."""
    for each in sources:
        text = f"{shorten(each.title, 100)}  {shorten(each.url, 200)}  score {each.score:.3g}"
        yield Line(indent, "", f"[{each.index}] {text}")


def format_summary(compacted: ContextCompacted) -> Iterator[Line]:
    """Format the summary that the model received instead of earlier runs."""
    model = shorten(compacted.model, 100)
    usage = format_tokens(compacted.usage)
    text = f"  of events up to version {compacted.through_version:,}, by {model}, {usage}"
    yield Line(0, "summary", text)
    yield Line(4, "", compacted.summary)


def format_call(call: Call, indent: int) -> Iterator[Line]:
    """Format a tool call: input, decisions, output."""
    took = f"  {call.ms:,} ms" if call.output is not None and call.may_run else ""
    yield Line(indent, "", f"{shorten(call.name, 100)}({format_fields(call.input, _INPUT)}){took}", "cyan")
    for approval in call.approvals:
        yield from _format_decision(approval, indent + 2)
    if call.output is None:
        yield Line(indent + 2, "", "no result yet", "yellow")
    else:
        yield Line(indent + 2, "", shorten(call.output, _OUTPUT), "red" if call.is_error else "dim")


def format_tokens(usage: Usage) -> str:
    """Format usage as `469 tokens (412 in, 57 out)`, with cache tokens if there are any."""
    parts = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"]
    if usage.cache_read_tokens:
        parts.append(f"{usage.cache_read_tokens:,} cache read")
    if usage.cache_creation_tokens:
        parts.append(f"{usage.cache_creation_tokens:,} cache write")
    return f"{format_count(usage.total, 'token')} ({', '.join(parts)})"


def _format_decision(approval: CallApproval, indent: int) -> Iterator[Line]:
    """Format an approval: the request, the decision, and the input that a person gave."""
    requested, decided, asked = approval.requested, approval.decided, approval.asked
    what = "approval requested" if asked is None else f"the tool asks: {shorten(asked.message, _INPUT)}"
    yield Line(indent, "", f"{what}  {requested.at}  approval {requested.approval_id}", "yellow")
    if decided is None:
        yield Line(indent, "", f"waiting for a decision until {requested.expires_at}", "yellow")
        return
    by = decided.by
    person = "the service" if by.kind == "service" else f"{by.kind} {shorten(by.id, 100)}"
    behalf = f" for {shorten(decided.on_behalf_of, 100)}" if decided.on_behalf_of else ""
    reason = f": {shorten(decided.reason, _INPUT)}" if decided.reason else ""
    verdict = decided.decision if asked is None else _ELICITED.get(decided.decision, decided.decision)
    style = "green" if decided.decision == "approved" else "red"
    yield Line(indent, "", f"{verdict} by {person}{behalf}  {decided.at}{reason}", style)
    if decided.input is not None:
        verb = "run with" if asked is None else "answered"
        yield Line(indent, "", f"{verb} {format_fields(decided.input, _INPUT)}", style)
