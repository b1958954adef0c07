"""`agentchat export`: the events of conversations, byte for byte, and rows of the views."""

import csv
import hashlib
import io
import json
import re
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agentchat.contracts import ids
from agentchat.conversations.conversation_export import ExportWriter, load_exportable_events
from agentchat.conversations.event_store.conversation_store import ConversationStore
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.analytics_views import Column
from agentchat.ops.export.row_writers import open_writer
from tests.conversations import given, recorded
from tests.conversations.recorded import PRO, encode_carried, rename_ids
from tests.conversations.replay_commands import Commands


@pytest.mark.parametrize("name", recorded.WHOLE)
async def test_export_has_the_bytes_that_were_stored(store: ConversationStore, log: Log, name: str) -> None:
    conversation = await recorded.ensure_stored(store, name)
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
    assert replay.run("export", "conversations", "--account", account, "-o", str(out)).code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    exported = out.read_bytes().splitlines()[1:-1]
    assert [line.partition(b'"event":')[2][:-1] for line in exported] == [
        each.state for each in conversation.stored
    ]
    piped = replay.run("export", "conversations", conversation.conversation_id, conversation.conversation_id)
    assert piped.out.encode().splitlines()[1:-1] == exported
    with psycopg.connect(replay.url) as conn:
        rows = conn.execute(
            "SELECT kind, subject_name FROM audit_log WHERE subject = %s", [account]
        ).fetchall()
        assert ("conversations", "Ada") in rows, "an export is in the audit log"


def test_rows_are_those_of_the_view_by_its_filters(replay: Commands, tmp_path: Path) -> None:
    account = replay.account()
    conversation = rename_ids(encode_carried("sources"), {PRO: account}, own_runs=True)
    replay.store_recorded(conversation)
    replay.project()

    def export(what: str, *arguments: str) -> list[dict[str, Any]]:
        done = replay.run("export", what, "--account", account.upper(), *arguments)
        assert done.code == 0, done.err
        return [json.loads(line) for line in done.out.splitlines()]

    runs, messages = export("runs"), export("messages")
    with psycopg.connect(replay.url) as conn:
        cursor = conn.execute("SELECT * FROM analytics.runs WHERE account_id = %s", [account])
        assert [column.name for column in cursor.description or ()] == list(runs[0])
        assert len(cursor.fetchall()) == len(runs) > 0
    assert [each["trace_id"] for each in messages] == [run["trace_id"] for run in runs for _ in range(2)]
    begun = str(runs[0]["requested_at"])
    for arguments, count in (
        (["--from", begun], len(runs)),
        (["--until", begun], 0),
        (["--state", "completed", "--agent", runs[0]["agent_id"]], len(runs)),
        (["--state", "failed"], 0),
        (["--user", "nobody"], 0),
    ):
        assert len(export("runs", *arguments)) == count, arguments


def test_csv_is_read_back_and_no_cell_is_a_formula(tmp_path: Path) -> None:
    columns = [Column(name, "text") for name in ("content", "rating", "is_copy", "cost", "at")]
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\n=1", "\uff1d1", 'a "b",\r\nc', ""]
    rows = [(text, None, True, Decimal("0.0025"), datetime(2026, 11, 21, 9, tzinfo=UTC)) for text in texts]
    with open(tmp_path / "rows.csv", "wb") as file, open_writer("csv", file, columns, tmp_path) as write:
        write(rows)
    with open(tmp_path / "rows.csv", newline="") as written:
        header, *cells = csv.reader(written, strict=True)
    assert header == [column.name for column in columns]
    assert [cell[0] for cell in cells] == [*(f"'{text}" for text in texts[:6]), *texts[6:]]
    assert {tuple(cell[1:]) for cell in cells} == {("", "true", "0.0025", "2026-11-21T09:00:00Z")}


def test_export_of_all_reports_active_runs(replay: Commands) -> None:
    everything = replay.run("export", "conversations", "--all")
    left = sum(map(int, re.findall(r": (\d+) events? of an active run", everything.err)))
    assert everything.out.count("\n") == replay.events() - left + 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["conversations"], "choose what to export"),
        (["conversations", "--all", "--account", PRO], "choose what to export"),
        (["conversations", "0192f0c1-7c4e-7aaa-8bbb-00000000dead"], "no such conversation: 0192f0c1"),
        (["conversations", "x\x1b[2J"], "no such conversation: x␛[2j"),
        (["conversations", "--account", "nobody"], "no such account: nobody"),
        (["conversations", "--all", "-o", "/nowhere/file"], "/nowhere/file cannot be written: No such file"),
        (["conversations", "--all", "-o", "/dev/null"], "/dev/null is not a file"),
        (["messages", "--state", "failed"], "--state: messages have no state"),
        (["runs", "--agent", "Demo"], "--agent: 'Demo' is not an id"),
        (["runs", "--from", "yesterday"], "--from: 'yesterday' is not a time"),
        (["runs", "--format", "parquet"], "needs the Python package duckdb"),
        (["tool-calls", "--state", "cancelled"], "have the states running, completed, failed, denied, lost"),
    ],
)
def test_wrong_export_is_refused_in_one_sentence(
    replay: Commands, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    done = replay.run("export", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "\n" not in done.err.strip()
