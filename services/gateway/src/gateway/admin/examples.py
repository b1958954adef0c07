"""An example of each thing that the admin API takes or gives."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from administration.usage import MonthUsage
from administration.values import (
    Account,
    AccountChanges,
    Agent,
    AgentChanges,
    AgentVersion,
    AuditRow,
    Chunk,
    Deletion,
    Document,
    DocumentBody,
    IssuedKey,
    Key,
    KeyChanges,
    KnowledgeBase,
    KnowledgeBaseChanges,
    NewAccount,
    NewAgent,
    NewDocument,
    NewKey,
    NewKnowledgeBase,
    NewPlan,
    NewServer,
    Plan,
    PlanChanges,
    PutDocument,
    SecretHint,
    ServerBody,
    ServerChanges,
    ShownServer,
    Use,
)
from contracts import wire
from contracts.messages import AgentCheck, ProviderCheck, ServerCheck
from contracts.values import Source
from conversations.projections.usage import UsageLine
from directory.agents import Retrieval
from gateway.admin.route import Nothing
from knowledge.passages import Passage

_AT = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
_ACCOUNT = "0192f0c1-7d10-7abc-8def-000000000001"
_AGENT = "0192f0c1-7d10-7abc-8def-000000000002"
_KEY = "0192f0c1-7d10-7abc-8def-000000000003"
_BASE = "0192f0c1-7d10-7abc-8def-000000000004"
_DOCUMENT = "5f1b1f0e-93a5-5d8e-9c0a-3b8a54f0c111"
_URL = "https://shop.example/mcp"
_PAGE_URL = "https://shop.example/returns"
_TEXT = "# Returns\n\nGoods may be returned within thirty days."
_PASSAGE = "Goods may be returned within thirty days."

_NUMBERS: dict[str, Any] = {
    "requests_per_minute": 600,
    "concurrent_runs": 20,
    "tokens_per_month": 50_000_000,
    "form2_streaming": True,
    "max_message_bytes": None,
}
_SERVER = ShownServer(
    name="shop", url=_URL, header_names=("Authorization",), allowed_tools=("find_orders",), disabled=False
)
_STORED = Document(
    id=_DOCUMENT,
    knowledge_base_id=_BASE,
    name="returns.md",
    title="Returns",
    url=_PAGE_URL,
    kind="markdown",
    characters=len(_TEXT),
    chunks=1,
    imported_at=_AT,
)
_SOURCE = Source(
    index=1,
    id="0b8c0f0e-93a5-5d8e-9c0a-3b8a54f0c222",
    title="Returns",
    url=_PAGE_URL,
    source_type="markdown",
    score=0.87,
    snippet=_PASSAGE,
)
_LINE = UsageLine(
    account_id=_ACCOUNT,
    day="2026-11-21",
    agent_id=_AGENT,
    model="claude-sonnet-5-5",
    runs=3,
    failed=0,
    cancelled=1,
    rounds=4,
    input_tokens=1200,
    output_tokens=300,
    cache_read_tokens=0,
    cache_creation_tokens=0,
)

_ALL: tuple[Any, ...] = (
    Nothing(),
    NewAccount(name="Acme", plan="Pro"),
    AccountChanges(plan="Enterprise", disabled=False),
    Account(id=_ACCOUNT, name="Acme", plan="Pro", disabled=False, created_at=_AT),
    NewKey(name="backend"),
    KeyChanges(name="web shop", disabled=True),
    Key(
        id=_KEY,
        account_id=_ACCOUNT,
        name="backend",
        last4="x9Qz",
        disabled=False,
        created_at=_AT,
        last_used_at=_AT,
        rotated_at=None,
        revoked_at=None,
    ),
    IssuedKey(id=_KEY, key="sk-ac-<43 characters>", last4="x9Qz", account_id=_ACCOUNT, name="backend"),
    NewPlan(name="Trial", **_NUMBERS),
    PlanChanges(requests_per_minute=1200, tokens_per_month=None),
    Plan(name="Pro", **_NUMBERS),
    NewAgent(
        account_id=_ACCOUNT,
        name="Shop assistant",
        model="claude-sonnet-5-5",
        system_prompt="Answer briefly.",
        parameters={"max_tokens": 1024},
        mcp_servers=(NewServer(name="shop", url=_URL, headers={"Authorization": "Bearer <token>"}),),
        provider_key="<provider key>",
    ),
    AgentChanges(system_prompt="Answer in one sentence.", disabled=False),
    Agent(
        id=_AGENT,
        account_id=_ACCOUNT,
        version=2,
        disabled=False,
        created_at=_AT,
        changed_at=_AT,
        name="Shop assistant",
        provider="anthropic",
        model="claude-sonnet-5-5",
        base_url=None,
        system_prompt="Answer in one sentence.",
        parameters={"max_tokens": 1024},
        max_tool_rounds=8,
        output_type="text",
        output_schema=None,
        mcp_servers=(_SERVER,),
        on_interruption="continue",
        retrieval=Retrieval(knowledge_base_id=_BASE, top_k=4),
        provider_key=SecretHint(set=True, last4="w3Ka"),
    ),
    AgentVersion(version=2, current=True, created_at=_AT, name="Shop assistant", model="claude-sonnet-5-5"),
    NewServer(name="shop", url=_URL, headers={"Authorization": "Bearer <token>"}),
    ServerBody(url=_URL, headers={"Authorization": "Bearer <token>"}),
    ServerChanges(allowed_tools=("find_orders",)),
    _SERVER,
    NewKnowledgeBase(account_id=_ACCOUNT, name="Shop policies"),
    KnowledgeBaseChanges(name="Policies", disabled=False),
    KnowledgeBase(
        id=_BASE,
        account_id=_ACCOUNT,
        name="Policies",
        language="english",
        disabled=False,
        created_at=_AT,
        documents=1,
        chunks=1,
    ),
    NewDocument(name="returns.md", kind="markdown", text=_TEXT, url=_PAGE_URL),
    DocumentBody(kind="markdown", text=_TEXT),
    _STORED,
    PutDocument(document=_STORED, outcome="added"),
    Chunk(1, "Returns", _PASSAGE),
    Passage(_SOURCE, _PASSAGE),
    AuditRow(
        id=42,
        at=_AT,
        actor="admin-api",
        action="change",
        kind="plan",
        subject="Pro",
        before={"name": "Pro", "concurrent_runs": 10},
        after={"name": "Pro", "concurrent_runs": 20},
    ),
    Deletion(
        kind="knowledge base",
        id=_BASE,
        dry_run=True,
        needs_force=True,
        goes=(Use("documents", 1),),
        used_by=(Use("agents", 1, ("Shop assistant",)),),
    ),
    MonthUsage(
        account_id=_ACCOUNT,
        month="2026-11",
        tokens=1500,
        limit=50_000_000,
        runs=3,
        failed=0,
        cancelled=1,
        lines=(_LINE,),
    ),
    AgentCheck(
        servers=(ServerCheck(name="shop", ok=True, tools=21, allowed=21, missing=(), detail="", ms=35),),
        provider=ProviderCheck(ok=True, code="ok", detail="", ms=410),
    ),
)

EXAMPLES: dict[type, Any] = {type(each): msgspec.json.decode(wire.encode(each)) for each in _ALL}
"""By type, as JSON values."""
