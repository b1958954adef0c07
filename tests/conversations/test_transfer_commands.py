"""`agentchat replay export`, `import`, `show`, `why`, where the accounts of the histories are other ones."""

import asyncio
import hashlib
import json
import os
import re
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from contracts import ids
from conversations.log import Log
from conversations.projections.catalogue import PROJECTIONS
from conversations.projections.follower import Follower
from ops.errors import StackError
from ops.main import app
from runtime.postgres import open_pool
from tests.admin_cli.conftest import Cli, Done
from tests.conversations import recorded
from tests.conversations.test_transfer import LOAD, PRO, SHOP_AGENT

pytestmark = pytest.mark.requirement("EXPORT")


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
