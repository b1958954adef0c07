"""`agentchat replay export`: the events of conversations, byte for byte."""

import hashlib
import io
import json
import re
from pathlib import Path

import pytest

from agentchat.contracts import ids
from agentchat.conversations.event_store.log import Log
from agentchat.conversations.event_store.store import ConversationStore
from agentchat.conversations.export import ExportWriter, load_exportable_events
from tests.conversations import given, recorded
from tests.conversations.recorded import PRO, encode_carried, rename_ids
from tests.conversations.replay_commands import Commands


@pytest.mark.parametrize("name", recorded.WHOLE)
async def test_export_has_the_bytes_that_were_stored(store: ConversationStore, log: Log, name: str) -> None:
    conversation = await recorded.stored(store, name)
    exportable = await load_exportable_events(log, conversation.conversation_id)
    assert exportable.active_run_events == 0
    written = io.BytesIO()
    writer = ExportWriter(written, exported_at="now")
    writer.add(exportable.entries)
    writer.end()
    lines = written.getvalue().splitlines(keepends=True)
    assert [each.strip() for each in lines[1:-1]] == recorded.get_path(name).read_bytes().splitlines()[1:-1]
    end = json.loads(lines[-1])
    assert end["sha256"] == hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert (end["conversations"], end["events"]) == (1, len(conversation.stored))


async def test_export_leaves_out_an_active_run(store: ConversationStore, log: Log) -> None:
    conversation_id = ids.make_id()
    conversation = await store.load(conversation_id)
    done = [
        given.build_conversation_started(),
        *given.turn("a", "Hi", "Hello"),
        given.build_user_message("b"),
        given.build_run_started("b"),
    ]
    await store.append(conversation, done)
    exportable = await load_exportable_events(log, conversation_id)
    assert len(exportable.entries) == len(done) - 2
    assert exportable.active_run_events == 2


def test_export_command_writes_a_private_file_or_a_pipe(replay: Commands, tmp_path: Path) -> None:
    account = replay.account()
    conversation = rename_ids(encode_carried("sources"), {PRO: account}, own_runs=True)
    replay.store_recorded(conversation)
    out = tmp_path / "out.jsonl"
    assert replay("export", "--account", account, "-o", str(out)).code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    exported = out.read_bytes().splitlines()[1:-1]
    assert [line.partition(b'"event":')[2][:-1] for line in exported] == [
        each.state for each in conversation.stored
    ]
    piped = replay("export", conversation.conversation_id, conversation.conversation_id)
    assert piped.out.encode().splitlines()[1:-1] == exported


def test_export_of_all_reports_active_runs(replay: Commands) -> None:
    everything = replay("export", "--all")
    left = sum(map(int, re.findall(r": (\d+) events? of an active run", everything.err)))
    assert everything.out.count("\n") == replay.events() - left + 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export"], "choose what to export"),
        (["export", "--all", "--account", PRO], "choose what to export"),
        (["export", "0192f0c1-7c4e-7aaa-8bbb-00000000dead"], "no such conversation: 0192f0c1"),
        (["export", "x\x1b[2J"], "no such conversation: x␛[2j"),
        (["export", "--account", "nobody"], "no such account: nobody"),
        (["export", "--all", "-o", "/nowhere/file"], "/nowhere/file cannot be written: No such file"),
    ],
)
def test_wrong_export_is_refused_in_one_sentence(replay: Commands, arguments: list[str], said: str) -> None:
    done = replay(*arguments)
    assert done.code == 2
    assert said in done.err
    assert "\n" not in done.err.strip()
