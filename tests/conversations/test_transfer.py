"""Export and import: the same events on the other side, or one sentence with the line, and nothing."""

import asyncio
import hashlib
import io
import json
import os
import random
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from contracts import ids
from conversations import moving, transfer
from conversations.errors import VersionConflict
from conversations.log import Log, open_log
from conversations.moving import Clash, Move, Names
from conversations.projections.catalogue import PROJECTIONS
from conversations.projections.follower import Follower
from conversations.store import ConversationStore
from conversations.transfer import UnfitFile, Writer, read, settled
from ops.errors import StackError
from ops.main import app
from runtime.postgres import open_pool
from tests.admin_cli.conftest import Cli, Done
from tests.conversations import given, recorded

pytestmark = pytest.mark.requirement("EXPORT")

PRO, LOAD = "019a0000-0000-7000-8000-000000000001", "019a0000-0000-7000-8000-000000000003"
SHOP_AGENT = "019a0000-0000-7000-8000-000000000011"
_Lines = list[bytes]


@pytest.fixture(scope="module")
async def log(migrated_database_url: str) -> AsyncIterator[Log]:
    async with open_log(migrated_database_url) as opened:
        yield opened


@pytest.mark.parametrize("name", recorded.WHOLE)
async def test_a_round_trip_gives_the_same_lines(store: ConversationStore, log: Log, name: str) -> None:
    carried = recorded.carried(name)
    move = await moving.planned(log, carried)
    assert move == Move("new", carried.stored[0].version - 1)
    await moving.bring(store, carried, move)
    assert (await moving.planned(log, carried)).kind == "present"
    out = await moving.outgoing(log, carried.conversation_id)
    assert out.left == 0
    written = io.BytesIO()
    writer = Writer(written, exported_at="now")
    writer.add(out.entries)
    writer.end()
    assert written.getvalue().splitlines()[1:-1] == recorded.path(name).read_bytes().splitlines()[1:-1]


async def test_what_went_on_there_goes_on_here(store: ConversationStore, log: Log) -> None:
    carried = mine(recorded.carried("shop"))
    facts = recorded.facts(carried)
    cut = next(place for place in range(1, len(facts)) if settled(facts[:place]) == place > 1)
    first = replaced(carried, stored=carried.stored[:cut])
    await moving.bring(store, first, await moving.planned(log, first))
    move = await moving.planned(log, carried)
    assert move == Move("longer", cut)
    await moving.bring(store, carried, move)
    assert (await moving.planned(log, first)).kind == "present"  # it is further here
    with pytest.raises(VersionConflict):
        await moving.bring(
            store, replaced(carried, stored=mine_stored(carried, b"Thanks!", b"THANKS!")), move
        )
    assert (await moving.planned(log, carried)).kind == "present"


async def test_a_conversation_of_another_content_clashes(store: ConversationStore, log: Log) -> None:
    carried = mine(recorded.carried("failed"))
    await moving.bring(store, carried, await moving.planned(log, carried))
    other = replaced(carried, stored=mine_stored(carried, b"Say something.", b"Say nothing."))
    with pytest.raises(Clash, match=rf"line 2: conversation {carried.conversation_id} is here with other"):
        await moving.planned(log, other)
    erased = recorded.carried("erased")
    late = replaced(carried, conversation_id=erased.conversation_id)
    await moving.bring(store, erased, await moving.planned(log, erased))
    with pytest.raises(Clash, match="was erased here"):
        await moving.planned(log, late)


async def test_of_a_run_under_way_nothing_leaves(store: ConversationStore, log: Log) -> None:
    conversation_id = ids.new_id()
    conversation = await store.load(conversation_id)
    done = [given.began(), *given.turn("a", "Hi", "Hello"), given.asked("b"), given.started("b")]
    await store.append(conversation, done)
    out = await moving.outgoing(log, conversation_id)
    assert (len(out.entries), out.left) == (len(done) - 2, 2)


def test_names_change_where_they_stand_and_no_other_byte() -> None:
    carried = recorded.carried("first_release")
    account, agent = ids.new_id(), ids.new_id()
    changed = moving.renamed(carried, Names(accounts={PRO: account}, agents={SHOP_AGENT: agent}))
    assert changed.account_id == account
    assert agent in changed.agents
    assert SHOP_AGENT not in changed.agents
    for before, after in zip(carried.stored, changed.stored, strict=True):
        expected = before.state.replace(PRO.encode(), account.encode())
        assert after.state == expected.replace(SHOP_AGENT.encode(), agent.encode())
    erased = moving.renamed(recorded.carried("erased"), Names(accounts={LOAD: account}))
    assert erased.stored[0].state.count(account.encode()) == 1


def _other() -> bytes:
    """A line of another conversation: all that is left of one."""
    return recorded.path("erased").read_bytes().splitlines(keepends=True)[1]


def _swap(lines: _Lines, first: int, second: int) -> _Lines:
    lines[first], lines[second] = lines[second], lines[first]
    return lines


def _edit(place: int, old: bytes, new: bytes) -> Callable[[_Lines], _Lines]:
    def edit(lines: _Lines) -> _Lines:
        assert old in lines[place]
        return [*lines[:place], lines[place].replace(old, new, 1), *lines[place + 1 :]]

    return edit


@pytest.mark.parametrize(
    ("damage", "line", "reason"),
    [
        pytest.param(lambda lines: [], 1, "the file is empty", id="empty"),
        pytest.param(lambda lines: [b"PK\x03\x04\xff\n"], 1, "this is no export", id="foreign"),
        pytest.param(
            lambda lines: [b'{"type":"message_saved.v1"}\n'], 1, "this is no export", id="bare event"
        ),
        pytest.param(lambda lines: lines[1:], 1, "does not begin with a header", id="no header"),
        pytest.param(_edit(0, b"agentchat.", b"elsewhere."), 1, "the format is 'elsewhere", id="format"),
        pytest.param(
            _edit(0, b'"version":1', b'"version":2'), 1, "version is 2; this program reads 1", id="new"
        ),
        pytest.param(lambda lines: lines[:-1], 13, "the end line is missing", id="cut between lines"),
        pytest.param(
            lambda lines: [*lines[:7], lines[7][:60]], 8, "the line is cut short", id="cut in a line"
        ),
        pytest.param(lambda lines: lines[:3] + lines[4:], 4, "version 3 should be here, not 4", id="lost"),
        pytest.param(lambda lines: lines[:4] + lines[3:], 5, "version 4 should be here, not 3", id="twice"),
        pytest.param(lambda lines: _swap(lines, 4, 5), 5, "version 4 should be here", id="order"),
        pytest.param(lambda lines: [lines[0], *lines[2:]], 2, "version 1 should be here", id="no beginning"),
        pytest.param(lambda lines: [*lines, b"\n"], 14, "not a line of an export", id="behind the end"),
        pytest.param(lambda lines: [*lines[:-1], _other(), *lines[1:]], 14, "was above already", id="again"),
        pytest.param(_edit(3, b"run_started.v1", b"run_started.v9"), 4, "not an event", id="unknown event"),
        pytest.param(_edit(4, b'"cuts":[7', b'"cuts":["7"'), 5, "not an event", id="wrong type"),
        pytest.param(_edit(2, b"Count.", b"\xff\xfe"), 3, "not", id="no UTF-8"),
        pytest.param(_edit(2, b"Count.", b"Count!"), 13, "lines were changed", id="changed text"),
        pytest.param(_edit(5, b'"at":"2026', b'"at":"noon'), 6, "its time is none", id="time"),
        pytest.param(_edit(1, b'"01a2', b'"zza2'), 2, "is no conversation's id", id="id"),
        pytest.param(lambda lines: [*lines[:5], lines[-1]], 5, "the last run has no end", id="open run"),
        pytest.param(_edit(1, b'"version":1', b'"version":0'), 2, "not a line of an export", id="version 0"),
        pytest.param(_edit(3, b'"demo-', b'"\\u0000demo-'), 4, "it holds the character NUL", id="NUL"),
        pytest.param(
            lambda lines: [lines[0], _other(), _other().replace(b'"version":8', b'"version":9'), lines[-1]],
            3,
            "nothing comes behind an erasure",
            id="after the end",
        ),
        pytest.param(_edit(0, b"{", b"[" * 100_000), 1, "this is no export", id="deep"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_its_line(
    damage: Callable[[_Lines], _Lines], line: int, reason: str
) -> None:
    lines = damage(recorded.path("cancelled").read_bytes().splitlines(keepends=True))
    with pytest.raises(UnfitFile) as raised:
        list(read(io.BytesIO(b"".join(lines))))
    assert raised.value.line == line
    assert str(raised.value).startswith(f"line {line}: ")
    assert reason in str(raised.value)


def test_no_changed_byte_goes_unseen() -> None:
    whole = recorded.path("failed").read_bytes()
    chance = random.Random(7)
    for _ in range(300):
        data = bytearray(whole)
        place = chance.randrange(len(data))
        data[place] ^= 1 << chance.randrange(8)
        if data[:place].count(b"\n") == 0 and b"exported_at" in data.partition(b"\n")[0]:
            continue  # the header's own time may be any
        with pytest.raises(UnfitFile):
            list(read(io.BytesIO(bytes(data))))


# --- the commands, on a database where the accounts of the histories are other ones ---


class Commands:
    """`agentchat replay ...` on one database."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.admin = Cli(url)

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Done:
        kept = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
        result = CliRunner().invoke(
            app, ["replay", *arguments], input=stdin, env=kept | {"AGENTCHAT_DATABASE_URL": self.url}
        )
        if isinstance(result.exception, StackError):
            return Done(result.exception.exit_code, result.stdout, str(result.exception))
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    def events(self) -> int:
        with psycopg.connect(self.url) as conn:
            row = conn.execute("SELECT count(*) FROM conversation_events").fetchone()
        return int(row[0]) if row else 0

    def project(self) -> None:
        async def work() -> None:
            async with open_pool(self.url) as pool:
                follower = Follower(pool, Log(pool), PROJECTIONS)
                while await follower.step():
                    pass

        asyncio.run(work())


@pytest.fixture
def replay(migrated_database_url: str) -> Commands:
    return Commands(migrated_database_url)


def test_an_export_is_imported_once_and_exported_again(replay: Commands, tmp_path: Path) -> None:
    account = replay.admin.account()
    source = mine_file(tmp_path, "sources")
    before = replay.events()
    tried = replay("import", str(source), "--account", f"{PRO}={account}", "--dry-run", "--json")
    assert (tried.json["new"], tried.json["dry_run"], replay.events()) == (1, True, before)
    done = replay("import", str(source), "--account", f"{PRO}={account}", "--json").json
    assert replay.events() == before + done["events"] > before
    assert list(done["unknown_agents"].values()) == [1]
    again = replay("import", "-", "--account", f"{PRO}={account}", "--json", stdin=source.read_bytes()).json
    assert (again["present"], again["events"], again["new"]) == (1, 0, 0)
    out = tmp_path / "out.jsonl"
    assert replay("export", "--account", account, "-o", str(out)).code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    expected = source.read_bytes().replace(PRO.encode(), account.encode()).splitlines()
    assert out.read_bytes().splitlines()[1:-1] == expected[1:-1]
    thread = json.loads(expected[1])["conversation_id"]
    piped = replay("export", thread, thread)
    assert piped.out.encode().splitlines()[1:-1] == expected[1:-1]
    everything = replay("export", "--all")
    left = sum(map(int, re.findall(r": (\d+) events of a run that is under way", everything.err)))
    assert everything.out.count("\n") == replay.events() - left + 2


def test_nothing_of_a_file_with_a_fault_at_its_end_is_imported(replay: Commands, tmp_path: Path) -> None:
    account = replay.admin.account()
    own = f"{PRO}={account}"
    source = mine_file(tmp_path, "shop")
    before = replay.events()
    lines = source.read_bytes().splitlines(keepends=True)
    cut = replay("import", "-", "--account", own, stdin=b"".join(lines[:-1]))
    assert (cut.code, cut.err) == (1, f"line {len(lines)}: the end line is missing: the file was cut short")
    unknown = replay("import", str(source))
    assert unknown.code == 1
    assert unknown.err == f"line 2: account {PRO} is not here; name one that is, by --account {PRO}=ID"
    assert replay.events() == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["export"], 2, "say what to export"),
        (["export", "--all", "--account", PRO], 2, "say what to export"),
        (["export", "0192f0c1-7c4e-7aaa-8bbb-00000000dead"], 2, "no such conversation: 0192f0c1"),
        (["export", "x\x1b[2J"], 2, "no such conversation: x␛[2j"),
        (["export", "--account", "nobody"], 2, "no such account: nobody"),
        (["export", "--all", "-o", "/nowhere/file"], 2, "/nowhere/file cannot be written: No such file"),
        (["import", "/nowhere/file"], 2, "/nowhere/file cannot be read: No such file"),
        (["import", str(recorded.path("shop")), "--account", "a=b"], 2, "write two ids, THERE=HERE"),
        (["import", str(recorded.path("corrupt"))], 1, "line 6: not an event"),
        (["import", __file__], 1, "line 1: this is no export of conversations"),
    ],
)
def test_what_cannot_be_moved_is_one_sentence(
    replay: Commands, arguments: list[str], code: int, said: str
) -> None:
    before = replay.events()
    done = replay(*arguments)
    assert done.code == code
    assert said in done.err
    assert "\n" not in done.err.strip()
    assert replay.events() == before


@pytest.mark.requirement("TIME-TRAVEL")
def test_show_draws_a_conversation_as_it_was(replay: Commands, tmp_path: Path) -> None:
    account = replay.admin.account()
    source = mine_file(tmp_path, "failed")
    replay("import", str(source), "--account", f"{LOAD}={account}")
    thread = json.loads(source.read_bytes().splitlines()[1])["conversation_id"]
    now = replay("show", thread.upper())
    for part in ("version 11", account, "failed  provider_error", "run 2  completed", "demo-echo", "tokens"):
        assert part in now.out, part
    assert "\x85" not in now.out  # an answer's control characters drive no terminal
    then = replay("show", thread, "--at", "3")
    assert "version 3 of 11" in then.out
    assert "run 1  running  versions 1 to 3" in then.out
    assert "run 2" not in then.out
    told = replay("show", thread, "--at", "4", "--json").json
    assert (told["head"], told["conversation"]["version"]) == (11, 4)
    assert [run["state"] for run in told["conversation"]["runs"]] == ["running"]
    for at, said in {
        "12": f"conversation {thread} is at version 11, not 12 yet",
        "0": f"conversation {thread} had not begun at 0",
        "2020-01-01": f"conversation {thread} had not begun at 2020-01-01",
        "soon": "--at: 'soon' must be a version, such as 12, or a time in ISO 8601",
    }.items():
        wrong = replay("show", thread, "--at", at)
        assert (wrong.code, wrong.out) == (2, "")
        assert said in wrong.err
    assert replay("show", ids.new_id()).code == 2


@pytest.mark.requirement("WHY")
def test_why_tells_what_made_a_message(replay: Commands, tmp_path: Path) -> None:
    account = replay.admin.account()
    agent = replay.admin.json(
        *("agents", "create", "--account", account, "--name", "Shop"),
        *("--model", "demo-shop-1", "--system-prompt", "Be brief."),
    )["id"]
    source = mine_file(tmp_path, "shop")
    names = ["--account", f"{PRO}={account}", "--agent", f"{SHOP_AGENT}={agent}"]
    assert replay("import", str(source), *names, "--json").json["unknown_agents"] == {}
    lines = [json.loads(line) for line in source.read_bytes().splitlines()[1:-1]]
    saved = [line["event"] for line in lines if line["event"]["type"] == "message_saved.v1"]
    asked, reply = saved[0], saved[1]
    unknown = replay("why", reply["message_id"])
    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err == (
        f"no such message: {reply['message_id']} (the read models are behind the log: try again)"
    )
    replay.project()
    replay.admin("agents", "change", agent, "--system-prompt", "Be long.")
    made = replay("why", reply["message_id"], "--json").json
    started = next(line["event"] for line in lines if line["event"]["type"] == "run_started.v1")
    replied = next(line["event"] for line in lines if line["event"]["type"] == "model_replied.v1")
    assert made["trace_id"] == reply["trace_id"]
    assert (made["agent"]["version"], made["agent"]["current"]) == (1, 2)
    assert made["agent"]["changes"] == [{"field": "system_prompt", "then": "Be brief.", "now": "Be long."}]
    assert made["attempts"] == [{"attempt": 1, "at": started["at"], "worker": started["worker"]}]
    first = made["rounds"][0]
    assert (first["prompt_sha256"], first["tools_sha256"]) == (
        replied["prompt_sha256"],
        replied["tools_sha256"],
    )
    assert len(first["calls"]) == 2
    told = replay("why", reply["message_id"]).out
    for part in (
        started["worker"],
        "now at version 2",
        "Be brief.",
        "system_prompt",
        replied["tools_sha256"],
    ):
        assert part in told, part
    assert "its own words" in replay("why", asked["message_id"]).out
    assert replay("why", reply["trace_id"], "--json").json == made
    for name, said in {
        "x": "neither the id of a message nor a trace id",
        "f" * 32: "no such trace",
        ids.new_id(): "no such message",
    }.items():
        wrong = replay("why", name)
        assert (wrong.code, wrong.out) == (2, "")
        assert said in wrong.err


def mine(carried: transfer.Carried) -> transfer.Carried:
    """As a conversation of its own."""
    return replaced(carried, conversation_id=ids.new_id())


def replaced(carried: transfer.Carried, **fields: object) -> transfer.Carried:
    return transfer.Carried(**{name: getattr(carried, name) for name in carried.__struct_fields__} | fields)


def mine_stored(carried: transfer.Carried, old: bytes, new: bytes) -> tuple[transfer.Stored, ...]:
    assert any(old in each.state for each in carried.stored)
    return tuple(
        transfer.Stored(each.version, each.topic, each.state.replace(old, new)) for each in carried.stored
    )


def mine_file(folder: Path, name: str) -> Path:
    """A history under ids of its own, as a file."""
    data = recorded.path(name).read_bytes()
    lines = [json.loads(line) for line in data.splitlines()[1:-1]]
    own = {line["event"][key] for line in lines for key in ("trace_id", "message_id") if key in line["event"]}
    for known in own | {lines[0]["conversation_id"]}:
        new = ids.new_id() if "-" in known else ids.new_id().replace("-", "")
        data = data.replace(known.encode(), new.encode())
    body = b"".join(data.splitlines(keepends=True)[:-1])
    end = json.loads(data.splitlines()[-1]) | {"sha256": hashlib.sha256(body).hexdigest()}
    path = folder / f"{name}.jsonl"
    path.write_bytes(body + json.dumps(end).encode() + b"\n")
    return path
