"""Every table of the command line, of rows that are hard to lay out, as its golden file has it.

python -m tests.admin_cli.tables     writes the golden files again
"""

import io
import os
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import msgspec

from administration import admin_values
from administration.admin_canary import CanaryComparison, VersionFigures
from administration.admin_usage import MonthUsage
from administration.admin_usage import VerifiedUsage as VerifiedUsage
from administration.canary_comparison import FigureComparison
from contracts import http
from contracts.messages import AgentCheck, ProviderCheck
from contracts.tool_messages import ServerCheck
from contracts.values import Decider, Source
from contracts.webhooks import Attempt, Delivery, OwnedEndpoint
from conversations.erased_rows import UnfinishedErasure
from conversations.projections.rebuilding import VerifiedReadModel
from conversations.projections.usage_table import UsageLine
from conversations.queries.finding_conversations import FoundConversation
from conversations.queries.under_way import UnderWay
from directory.agents import AgentSettings
from directory.approval_policy import ApprovalRules, ToolFilter
from directory.plans import Plan
from experiments.comparison import ComparedRun, RunFigures, RunOutput
from knowledge.search.explaining import Explanation, Word
from knowledge.search.passages import Passage
from ops.admin.database_commands import show_verified
from ops.admin.printed_answers import show_answer, show_lines
from ops.replay import rebuild_command
from ops.replay.what_if_command import print_runs
from ops.status.figures import Lag, LoggedError, QueueStatus, SystemFigures
from ops.status.status_command import ServiceStatus, State, Status, show
from webhooks.delivery_queue import EndpointFigures

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (80, 120, None)
"""Columns of a terminal; None: no terminal."""

_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_AT = datetime(2026, 11, 21, 10, 0, 5, tzinfo=UTC)
_LONG = "A customer of the shop in Kufstein asks why the parcel with the tent has not arrived after nine days"


def _id(number: int) -> str:
    return f"01a1fdf8-c4f5-7a14-a4af-{number:012}"


_ACCOUNT, _AGENT_ID, _TRACE = _id(1), _id(2), "5b60e6dd03d707a16841739c7dbe0a72"
_NAME, _MODEL = "Alder & Finch, the shop's assistant for orders and returns", "claude-sonnet-4-5-20250929"
_SETTINGS = msgspec.structs.asdict(AgentSettings(name=_NAME, model=_MODEL))
_IDENTITY = {"id": _AGENT_ID, "account_id": _ACCOUNT, "version": 13, "disabled": False}
_AGENT = admin_values.Agent(
    **_SETTINGS | _IDENTITY | {"provider_key": admin_values.SecretHint(set=True, last4="abcd")},
    created_at=_AT,
    changed_at=_AT,
)
_SERVER = admin_values.ShownServer(
    name="shop",
    url="https://tools.alder-finch.example/a/rather/long/path/to/api/mcp",
    header_names=("Authorization",),
    allowed_tools=("get_order", "cancel_order", "list_products", "get_product"),
    disabled=False,
    require_approval=ApprovalRules(always=ToolFilter(tool_names=("cancel_order",))),
    elicitation=True,
    max_call_seconds=60,
)
_APPROVAL = http.Approval(
    id=_id(3),
    status="approved",
    trace_id=_TRACE,
    conversation_id=_id(4),
    agent_id=_AGENT_ID,
    tool=http.ApprovalTool(name="change_delivery_address", server="shop"),
    input={"order_id": "ORD-1030", "address": {"street": "Seeweg 14", "city": "6020 Innsbruck"}},
    requested_at="2026-11-21T10:00:05.123456Z",
    expires_at="2026-11-28T10:00:05.123456Z",
    decision=http.DecisionMade(
        decision="approved", by=Decider(kind="operator", id="ada"), at="2026-11-21T10:01:00.000000Z"
    ),
)
_LINE = UsageLine(
    account_id=_ACCOUNT,
    day="2026-11-21",
    agent_id=_AGENT_ID,
    model="claude-sonnet-4-5",
    runs=234,
    failed=12,
    cancelled=3,
    rounds=345,
    input_tokens=345_678,
    output_tokens=45_678,
    cache_read_tokens=234_567,
    cache_creation_tokens=3_456,
)
_SOURCE = Source(
    index=1,
    id=_id(5),
    title="Returns and exchanges: how long you can return something",
    url="https://alder-finch.example/help/returns",
    source_type="markdown",
    score=0.3874,
    snippet=f"You may return goods unused within 30 days of delivery. {_LONG}",
)
_CHECK = AgentCheck(
    servers=(
        ServerCheck(name="shop", ok=False, tools=21, allowed=4, missing=("cancel",), detail=_LONG, ms=12),
    ),
    provider=ProviderCheck(ok=True, code="ok", ms=345),
)
_AUDIT = admin_values.AuditRow(
    id=1,
    at=_AT,
    actor="ada@laptop",
    action="change",
    kind="agent",
    subject=_AGENT_ID,
    before={"name": "Shop", "model": "claude-3-5-haiku"},
    after={"name": "Shop of Alder & Finch", "model": "claude-sonnet-4-5-20250929"},
)


def _listed(kind: type, *items: Any) -> Callable[[], object]:
    return partial(show_answer, kind, items, json_too=False)


def _process(name: str, state: State, reason: str | None = None) -> ServiceStatus:
    return ServiceStatus(
        name=name,
        pid=None if state == "down" else 4711,
        health_url=None,
        metrics_url=None,
        version="0.9.0",
        state=state,
        reason=reason,
        started_at="2026-11-21T10:00:05+00:00",
        up_seconds=None if state == "down" else 86_400.4,
        restarts=1,
        log=f"{name}.log",
    )


_STATUS = Status(
    ready=False,
    run_dir="/srv/agentchat",
    base_url="http://127.0.0.1:8080",
    services=[
        _process("postgres", "ready"),
        _process("orchestrator-1", "not ready", f"postgres does not answer. {_LONG}"),
        _process("tool-runner-1", "down", "it is started again"),
    ],
    figures=SystemFigures(
        projector="projector-1",
        runs=UnderWay(open_runs=12, oldest_run_seconds=345.6, approvals=3, waiting_messages=1),
        queues=[QueueStatus(name="REQUESTS", waiting=2, oldest_seconds=3.2)],
        lags=[Lag(name="conversations", behind=1_234, parked=1), Lag(name="EVENTS", behind=0)],
        webhooks=EndpointFigures(endpoints=12, failing=1, waiting=2, behind=1_234),
        unknown=["nats is down"],
    ),
    errors=[LoggedError(at="2026-11-21T10:00:05.123456Z", service="orchestrator-1", text=_LONG)],
)


_ENDPOINT = OwnedEndpoint(
    id=_id(6),
    account_id=_ACCOUNT,
    url="https://shop.alder-finch.example/a/rather/long/path/to/webhooks",
    events=("run.completed", "run.failed"),
    payload="thin",
    disabled=False,
    disabled_reason=None,
    secret_last4="abcd",
    position=1_234,
    failing_since=_AT,
    created_at=_AT,
)
_DELIVERY = Delivery(
    id=f"msg_{'0123456789abcdef' * 2}",
    type="run.completed",
    position=1_234,
    status="waiting",
    attempts=(Attempt(at=_AT, ms=12, status=500),),
    next_attempt_at=_AT,
    created_at=_AT,
)


def _plan(name: str, tokens: int | None) -> Plan:
    unlimited: dict[str, Any] = dict.fromkeys(Plan.__struct_fields__)
    return Plan(**unlimited | {"name": name, "tokens_per_month": tokens})


def _what_if(*, priced: bool) -> None:
    before = RunFigures(model="claude", rounds=2, calls=1, tokens=9141, cost=0.012345, seconds=2.1)
    after = RunFigures(model="claude", rounds=3, calls=2, tokens=12_345, cost=0.023456, seconds=12.7)
    run = ComparedRun(
        conversation_id=_id(4),
        trace_id=_TRACE,
        message=_LONG,
        recorded_end="completed",
        outcome="completed",
        code=None,
        detail=None,
        same_tools=False,
        same_answer=False,
        alike=0.87,
        missed=(),
        sources_missed=False,
        recorded=before,
        replayed=after,
        before=RunOutput(content="", calls=()),
        after=RunOutput(content="", calls=()),
    )
    print_runs([run], priced=priced)


_VERSIONS = (
    VersionFigures(
        version=12,
        share=95,
        runs=12_345,
        completed=12_300,
        failed=45,
        completed_share=0.9964,
        seconds=2.345,
        tokens=812.4,
        rated=321,
        rating=0.62,
    ),
    VersionFigures(
        version=13,
        share=None,
        runs=0,
        completed=0,
        failed=0,
        completed_share=None,
        seconds=None,
        tokens=None,
        rated=0,
        rating=None,
    ),
)


def _figure(
    figure: str,
    state: Literal["worse", "better", "same", "undecided", "too_few"],
    before: float,
    after: float,
    low: float | None = None,
    high: float | None = None,
) -> FigureComparison:
    return FigureComparison(
        figure=figure,
        state=state,
        before_count=12_345,
        after_count=650,
        before=before,
        after=after,
        difference=after - before,
        low=low,
        high=high,
        tolerated=0.05,
    )


COMPARED = CanaryComparison(
    agent_id=_AGENT_ID,
    versions=_VERSIONS,
    version=13,
    against=12,
    decision="worse",
    reasons=("completed is worse",),
    comparisons=(
        _figure("completed", "same", 0.9964, 0.9923, -0.012, 0.004),
        _figure("rating", "too_few", 0.62, 0.5),
        _figure("tool_errors", "same", 0.012, 0.013, -0.004, 0.006),
        _figure("seconds", "undecided", 2.345, 2.51, -0.101, 0.431),
        _figure("tokens", "better", 1812.4, 1512.9, -400.2, -198.1),
        _figure("cost", "better", 0.01234, 0.0101, -0.0031, -0.0014),
    ),
    promote=12,
)


TABLES: dict[str, Callable[[], object]] = {
    "accounts": _listed(
        admin_values.Account,
        admin_values.Account(id=_ACCOUNT, name=_LONG, plan="Enterprise", disabled=False, created_at=_AT),
    ),
    "webhook-endpoints": _listed(OwnedEndpoint, _ENDPOINT),
    "webhook-deliveries": _listed(Delivery, _DELIVERY),
    "plans": _listed(Plan, _plan("Pro", 50_000_000), _plan("load", None)),
    "keys": _listed(
        admin_values.Key,
        admin_values.Key(
            id=_id(6),
            account_id=_ACCOUNT,
            name="web shop, production",
            last4="Zk3x",
            disabled=False,
            created_at=_AT,
            last_used_at=_AT,
            rotated_at=None,
            revoked_at=None,
        ),
    ),
    "agents": _listed(admin_values.Agent, _AGENT),
    "agent-versions": _listed(
        admin_values.AgentVersion,
        admin_values.AgentVersion(version=13, current=True, created_at=_AT, name=_NAME, model=_MODEL),
    ),
    "mcp-servers": _listed(admin_values.ShownServer, _SERVER),
    "agent-check": lambda: show_answer(AgentCheck, _CHECK, json_too=False),
    "knowledge-bases": _listed(
        admin_values.KnowledgeBase,
        admin_values.KnowledgeBase(
            id=_id(7),
            account_id=_ACCOUNT,
            name="The shop's policies",
            language="english",
            disabled=False,
            created_at=_AT,
            documents=12,
            chunks=1_234,
        ),
    ),
    "documents": _listed(
        admin_values.Document,
        admin_values.Document(
            id=_id(8),
            knowledge_base_id=_id(7),
            name="policies/returns-and-exchanges.md",
            title=_SOURCE.title,
            url=_SOURCE.url,
            kind="markdown",
            characters=12_345,
            chunks=23,
            imported_at=_AT,
        ),
    ),
    "passages": _listed(Passage, Passage(_SOURCE, _SOURCE.snippet)),
    "search-words": lambda: show_answer(
        Explanation,
        Explanation(
            words=(Word("return", 12, 1.234), Word("order", 120, 0.2)),
            phrases=(),
            embedder=None,
            by_text=12,
            by_meaning=0,
            found=(),
        ),
        json_too=False,
    ),
    "agent-canary": _listed(VersionFigures, *_VERSIONS),
    "agent-canary-compared": lambda: show_answer(CanaryComparison, COMPARED, json_too=False),
    "approvals": _listed(http.Approval, _APPROVAL),
    "conversations": _listed(
        FoundConversation,
        FoundConversation(
            id=_id(4),
            account_id=_ACCOUNT,
            title=_LONG,
            agent_id=_AGENT_ID,
            message_count=12,
            created_at="2026-11-21T10:00:05.123456Z",
            updated_at="2026-11-21T10:00:05.123456Z",
            metadata={"customer": "C-77"},
        ),
    ),
    "deletions": _listed(
        UnfinishedErasure,
        UnfinishedErasure(conversation_id=_id(4), rows_left=298_500, copies_left=12_345),
        UnfinishedErasure(conversation_id=_id(9), rows_left=0, copies_left=7),
    ),
    "audit": _listed(admin_values.AuditRow, _AUDIT),
    "usage": _listed(
        MonthUsage,
        MonthUsage(
            account_id=_ACCOUNT,
            month="2026-11",
            tokens=15_949_379,
            limit=50_000_000,
            runs=1234,
            failed=12,
            cancelled=3,
            lines=(),
            stored_bytes=734_003_200,
            storage_limit=1_073_741_824,
        ),
    ),
    "usage-of-account": lambda: show_lines([_LINE]),
    "usage-verified": lambda: show_verified(
        [
            VerifiedUsage(
                account_id=_ACCOUNT,
                month="2026-11",
                runs=1234,
                logged=15_949_379,
                projected=15_949_379,
                cached=15_949_379,
                differences=(),
                repaired=False,
            )
        ]
    ),
    "read-models": lambda: rebuild_command.show_verified(
        [
            VerifiedReadModel(
                name="conversations",
                position=1_234_567,
                rows=12_345,
                difference=None,
                parked=(),
            )
        ]
    ),
    "status": partial(show, _STATUS),
    "what-if": partial(_what_if, priced=False),
    "what-if-with-prices": partial(_what_if, priced=True),
}

LISTED = {call.args[0] for call in TABLES.values() if isinstance(call, partial) and call.func is show_answer}
"""The types of which there is a table."""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(name: str, width: int | None) -> str:
    """A table as a terminal of so many columns shows it, or as another program reads it."""
    stream = io.StringIO() if width is None else _Terminal()
    columns = {} if width is None else {"COLUMNS": str(width), "TERM": "xterm"}
    with patch.dict(os.environ, columns), redirect_stdout(stream):
        TABLES[name]()
    lines = _ESCAPES.sub("", stream.getvalue()).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def golden(name: str) -> str:
    """All that a golden file has."""
    titles = {width: f"{width} columns" if width else "no terminal" for width in WIDTHS}
    return "\n".join(f"--- {titles[width]}\n{drawn(name, width)}" for width in WIDTHS)


if __name__ == "__main__":
    for each in TABLES:
        (GOLDEN / f"{each}.txt").write_text(golden(each))
