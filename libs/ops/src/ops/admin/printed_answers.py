"""Prints the result of an operation, for people or as JSON."""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from administration.admin_canary import CanaryComparison
from administration.admin_usage import MonthUsage
from administration.admin_values import (
    Account,
    Agent,
    AuditRow,
    Document,
    IssuedKey,
    Key,
    KnowledgeBase,
    ShownServer,
)
from administration.canary_comparison import Decision
from contracts.http import Approval
from contracts.messages import AgentCheck
from contracts.webhooks import Delivery, OwnedEndpoint
from conversations.erased_rows import UnfinishedErasure
from conversations.projections.usage_table import UsageLine
from conversations.queries.finding_conversations import FoundConversation
from directory.plans import Plan
from knowledge.search.explaining import Explanation, Reasons
from knowledge.search.passages import Passage
from ops import printing

_COLUMNS: dict[type, str] = {
    Account: "id name plan disabled created_at",
    Agent: "id name model version disabled changed_at account_id",
    Approval: "id status tool input requested_at",
    Delivery: "id type position status next_attempt_at created_at",
    Document: "id name title kind chunks imported_at",
    UnfinishedErasure: "conversation_id rows_left copies_left",
    Key: "id name last4 disabled last_used_at revoked_at",
    KnowledgeBase: "id name language disabled documents chunks account_id",
    MonthUsage: "account_id tokens limit runs failed cancelled stored_bytes storage_limit",
    OwnedEndpoint: "id account_id url disabled failing_since",
    Plan: (
        "name requests_per_minute concurrent_runs tokens_per_month storage_bytes form2_streaming"
        " max_message_bytes"
    ),
    ShownServer: "name url disabled allowed_tools require_approval",
}
"""Columns of lists; lists of other types have all fields. `show` and `--json` have the other fields."""


def show_answer(kind: type, answer: Any, *, json_too: bool) -> int:
    """The exit code: of a check that has failed 1, of a comparison its verdict's."""
    well = answer.ok if isinstance(answer, AgentCheck) else True
    if json_too:
        printing.as_json(msgspec.structs.asdict(answer) | {"ok": well} if kind is AgentCheck else answer)
    elif kind in _BY_TYPE:
        _BY_TYPE[kind](answer)
    elif isinstance(answer, tuple):
        printing.things(answer, _COLUMNS.get(kind, ""))
    else:
        printing.thing(answer)
    if isinstance(answer, CanaryComparison):
        return _CODES[answer.decision]
    return 0 if well else 1


def show_lines(lines: Sequence[UsageLine]) -> None:
    """What an account has spent, by day, agent and model; `--json` has rounds and kinds of cached tokens."""
    headings = ["DAY", "AGENT ID", "MODEL", "RUNS", "FAILED", "INPUT", "OUTPUT", "CACHED", "TOTAL"]
    rows = [
        [
            *(line.day, line.agent_id, line.model, line.runs, line.failed),
            *(line.input_tokens, line.output_tokens),
            *(line.cache_read_tokens + line.cache_creation_tokens, line.total),
        ]
        for line in lines
    ]
    printing.table(headings, rows)


def _conversations(found: Sequence[FoundConversation]) -> None:
    """With the text that was found in each, where one was looked for."""
    searched = any(each.hit for each in found)
    rows = [
        [each.id, each.account_id, datetime.fromisoformat(each.updated_at), each.title]
        + ([each.hit.snippet.text if each.hit else ""] if searched else [])
        for each in found
    ]
    printing.table(["ID", "ACCOUNT ID", "UPDATED", "TITLE"] + (["FOUND"] if searched else []), rows)


def _issued(issued: IssuedKey) -> None:
    printing.note(f"key {issued.id} {issued.name!r} of account {issued.account_id}; it is shown this once:")
    sys.stdout.write(issued.key + "\n")
    sys.stdout.flush()


def _passages(found: Sequence[Passage]) -> None:
    printing.things([passage.source for passage in found], "index score title snippet")


def _explanation(found: Explanation) -> None:
    """The words of the question, then each passage with its reasons."""
    printing.things(found.words, "word weight passages")
    for phrase in found.phrases:
        sys.stdout.write(f'together: "{printing.cell(phrase)}"\n')
    meaning = f"{found.by_meaning} by {printing.cell(found.embedder)}" if found.embedder else "no embedder"
    sys.stdout.write(f"\nfound: {found.by_text} by full text, {meaning}\n")
    for each in found.found:
        source = each.passage.source
        sys.stdout.write(f"\n{source.index}. {printing.cell(source.title)}  score {source.score:.3g}\n")
        sys.stdout.writelines(f"   {line}\n" for line in _reasons(each))


def _reasons(each: Reasons) -> Iterator[str]:
    if each.place_by_text is not None:
        yield f"full text: place {each.place_by_text}, {each.share:.0%} of the question's weight"
    if each.place_by_meaning is not None:
        yield f"embeddings: place {each.place_by_meaning}"
    words = [f"{word} (title)" if word in each.in_title else word for word in each.words]
    yield f"holds: {printing.cell(', '.join(words)) or 'none of the words'}"
    yield printing.cell(each.passage.source.snippet)


def _audit(found: Sequence[AuditRow]) -> None:
    rows = [
        [row.at, row.actor, f"{row.action} {row.kind}", row.subject, _change(row.before, row.after)]
        for row in found
    ]
    printing.table(["WHEN", "WHO", "WHAT", "SUBJECT ID", "CHANGE"], rows)


def _change(before: object, after: object) -> str:
    """The fields that differ, or all of a row that was created or deleted."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return printing.cell(after if before is None else before)
    pairs = {name: (before.get(name), after.get(name)) for name in before | after}
    changed = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return "; ".join(
        f"{name}: {printing.cell(old)} → {printing.cell(new)}" for name, (old, new) in changed.items()
    )


def _check(found: AgentCheck) -> None:
    if found.servers:
        printing.things(found.servers)
    printing.things([found.provider])


_CODES: dict[Decision, int] = {"better": 0, "same": 0, "worse": 1, "undecided": 2}


def _canary(found: CanaryComparison) -> None:
    """Print the versions, the comparisons, and what to do."""
    printing.things(found.versions)
    rows = [
        [
            each.title,
            f"{each.before_count:,} / {each.after_count:,}",
            *(each.shown(value) for value in (each.before, each.after)),
            each.shown(each.difference, "+"),
            each.interval,
            each.state.replace("_", " "),
        ]
        for each in found.comparisons
    ]
    if rows:
        sys.stdout.write("\n")
        headings = ["FIGURE", "CONVERSATIONS", "BEFORE", "AFTER", "DIFFERENCE", "95 %", "STATE"]
        printing.table(headings, rows)
    for reason in found.reasons:
        printing.note(reason)
    for line in _next_steps(found):
        printing.note(line)


def _next_steps(found: CanaryComparison) -> Iterator[str]:
    if found.version is None:
        return
    command = f"agentchat admin agents promote {found.agent_id}"
    yield f"version {found.version} against {found.against}: {found.decision}"
    match found.decision:
        case "better" | "same":
            yield f"to let it answer all conversations: {command} {found.version}"
        case "worse":
            yield f"to go back: {command} {found.against}"
        case "undecided" if found.more is not None:
            yield f"some {found.more:,} more conversations of version {found.version} would decide it"


_BY_TYPE: dict[type, Callable[[Any], None]] = {
    FoundConversation: _conversations,
    IssuedKey: _issued,
    Passage: _passages,
    Explanation: _explanation,
    AuditRow: _audit,
    AgentCheck: _check,
    CanaryComparison: _canary,
}
