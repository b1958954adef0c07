"""Recorded histories replayed: what was stored once is read, folded, projected and told again for ever."""

import json
import re

import msgspec
import pytest

from agentchat.contracts import events
from agentchat.contracts.values import TOKEN_KINDS, Usage
from agentchat.conversations.aggregate.canonical_stream import render_answer
from agentchat.conversations.aggregate.conversation import Conversation, Run, fold
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.runtime.postgres import Pool
from tests.conversations import recorded
from tests.conversations.read_models import follow

STATES = {
    "first_release": ["completed"] * 3,
    "shop": ["completed"] * 3,
    "sources": ["completed"] * 2,
    "failed": ["failed", "completed"],
    "cancelled": ["cancelled", "completed"],
    "taken_over": ["completed"],
    "approvals": ["completed", "completed"],
    "elicited": ["completed", "completed"],
    "elicitation": ["completed", "completed"],
    "rated": ["completed", "completed"],
    "warned": ["completed"],
    "client_tool": ["completed"],
    "busy": ["completed", "cancelled", "completed"],
    "seeded": ["completed", "completed"],
    "forked": ["completed", "completed"],
    "handed_over": ["completed"],
    "compacted": ["completed"] * 6,
    "erased": [],
}


def fold_history(found: recorded.RecordedConversation) -> Conversation:
    return fold(found.conversation_id, recorded.build_facts(found))


def list_own_runs(found: recorded.RecordedConversation, conversation: Conversation) -> list[Run]:
    """Those that are no copies of another conversation's: nobody heard of these by their own names."""
    own = {fact.trace_id for fact in recorded.build_facts(found) if fact.inherited_from is msgspec.UNSET}
    return [run for run in conversation.runs if run.trace_id in own]


@pytest.mark.parametrize("name", recorded.WHOLE)
def test_a_folded_history_replays_what_was_received(name: str) -> None:
    conversation = fold_history(recorded.encode_carried(name))
    assert [run.state for run in conversation.runs] == STATES[name]
    told = recorded.render_heard(name)
    own = list_own_runs(recorded.encode_carried(name), conversation)
    assert [each.trace_id for each in told] == [run.trace_id for run in own]
    for each, run in zip(told, own, strict=True):
        if each.form == "openai":  # rendered by the gateway alone
            assert run.reply is not None
            assert json.loads(each.body)["choices"][0]["message"]["content"] == run.reply.content
            continue
        again = render_answer(run, each.form, conversation.conversation_id)
        assert again.decode() == each.body, (name, each.trace_id)


def test_each_event_that_the_services_store_is_in_a_history() -> None:
    tree = recorded.FOLDER.parents[1].glob("*/*/src/**/*.py")
    sources = "\n".join(path.read_text() for path in tree if path.name != "examples.py")
    made = set(re.findall(r"(?<!case )(?<!\| )events\.(\w+)\(", sources))
    facts = [fact for name in recorded.WHOLE for fact in recorded.build_facts(recorded.encode_carried(name))]
    assert {type(fact) for fact in facts} == {each for each in events.EVENTS if each.__name__ in made}


def test_what_the_histories_are_of_is_in_them() -> None:
    for took_over in ("taken_over", "handed_over"):
        assert fold_history(recorded.encode_carried(took_over)).runs[0].attempt > 1
    summaries = [
        run.compacted for run in fold_history(recorded.encode_carried("compacted")).runs if run.compacted
    ]
    assert [each.provider_data is None for each in summaries] == [True, False]
    for name in ("elicited", "elicitation"):
        calls = [
            call for run in fold_history(recorded.encode_carried(name)).runs for call in run.rounds[0].calls
        ]
        assert [[each.action for each in call.responses] for call in calls] == [["accept"], ["decline"]]
    shop, sources = (
        fold_history(recorded.encode_carried("shop")),
        fold_history(recorded.encode_carried("sources")),
    )
    assert max(len(each.calls) for run in shop.runs for each in run.rounds) == 2
    assert shop.runs[2].prompt_override
    assert all(run.sources for run in sources.runs)
    (erased,) = recorded.build_facts(recorded.encode_carried("erased"))
    assert isinstance(erased, events.ConversationErased)


def test_a_fork_has_copies_of_an_approval_and_is_described() -> None:
    found = recorded.encode_carried("forked")
    copies = [fact for fact in recorded.build_facts(found) if fact.inherited_from is not msgspec.UNSET]
    assert {type(fact) for fact in copies} >= {events.ApprovalRequested, events.ApprovalDecided}
    fork = fold_history(found)
    assert fork.forked_from is not None
    assert (fork.title, dict(fork.metadata)) == ("A cancelled order", {"desk": "orders"})
    assert [call.may_run for run in fork.runs for each in run.rounds for call in each.calls] == [True, False]


def test_history_of_the_first_release_is_readable() -> None:
    old = recorded.encode_carried("first_release")
    later = {b"worker", b"prompt_sha256", b"tools_sha256"}
    assert not any(field in each.state for each in old.stored for field in later)
    made = [fact for fact in recorded.build_facts(old) if isinstance(fact, events.ModelReplied)]
    assert made
    assert all(fact.prompt_sha256 is None for fact in made)


async def test_histories_are_projected(store: ConversationStore, log: Log, pool: Pool) -> None:
    found = {name: recorded.encode_carried(name) for name in recorded.WHOLE}
    for carried in found.values():
        await recorded.store_recorded(store, carried)
    await follow(pool, log)
    async with pool.connection() as conn:
        parked = await (await conn.execute("SELECT * FROM parked_events")).fetchall()
        kept = await (await conn.execute("SELECT message_id, role, content FROM messages")).fetchall()
        states = await (await conn.execute("SELECT trace_id, state FROM runs")).fetchall()
        spent = await (await conn.execute(_SPENT)).fetchall()
        threads = await (await conn.execute("SELECT conversation_id FROM conversations")).fetchall()
    assert parked == []
    conversations = {name: fold_history(carried) for name, carried in found.items()}
    runs = [run for each in conversations.values() for run in each.runs]
    own = [run for name, each in conversations.items() for run in list_own_runs(found[name], each)]
    listed = {each.conversation_id for each in conversations.values() if not each.erased}
    assert {row[0] for row in threads} == listed
    replies = [(run.reply.id, "assistant", run.reply.content) for run in runs if run.reply]
    joined = [message for run in runs for each in run.rounds for message in each.joined]
    asked = [(run.user_message_id, "user", run.user_text) for run in runs]
    asked += [(message.message_id, "user", message.content) for message in joined]
    assert sorted(kept) == sorted(asked + replies)
    assert sorted(states) == sorted((run.trace_id, run.state) for run in own)
    usages = {run.trace_id: run.usage for run in own}
    assert {row[0]: Usage(**dict(zip(TOKEN_KINDS, row[1:], strict=True))) for row in spent} == usages


_SPENT = """
SELECT trace_id, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens FROM runs
"""
