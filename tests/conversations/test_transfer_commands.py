"""`agentchat replay export` and `import`, where the accounts of the histories are other ones."""

import json
import re
from pathlib import Path

import pytest

from tests.conversations import recorded
from tests.conversations.replay_commands import Commands, mine_file
from tests.conversations.test_transfer import PRO


def test_a_dry_run_counts_what_an_import_would_bring_and_changes_nothing(
    replay: Commands, tmp_path: Path
) -> None:
    account = replay.account()
    source = mine_file(tmp_path, "sources")
    before = replay.events()
    tried = replay("import", str(source), "--account", f"{PRO}={account}", "--dry-run", "--json")
    assert (tried.json["new"], tried.json["dry_run"]) == (1, True)
    assert replay.events() == before


def test_a_file_is_imported_once(replay: Commands, tmp_path: Path) -> None:
    account = replay.account()
    source = mine_file(tmp_path, "sources")
    before = replay.events()
    done = replay("import", str(source), "--account", f"{PRO}={account}", "--json").json
    assert replay.events() == before + done["events"] > before
    assert list(done["unknown_agents"].values()) == [1]
    again = replay("import", "-", "--account", f"{PRO}={account}", "--json", stdin=source.read_bytes()).json
    assert (again["present"], again["events"], again["new"]) == (1, 0, 0)


def test_what_was_imported_is_exported_line_by_line(replay: Commands, tmp_path: Path) -> None:
    account = replay.account()
    source = mine_file(tmp_path, "sources")
    replay("import", str(source), "--account", f"{PRO}={account}")
    expected = source.read_bytes().replace(PRO.encode(), account.encode()).splitlines()
    out = tmp_path / "out.jsonl"
    assert replay("export", "--account", account, "-o", str(out)).code == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert out.read_bytes().splitlines()[1:-1] == expected[1:-1]
    thread = json.loads(expected[1])["conversation_id"]
    piped = replay("export", thread, thread)
    assert piped.out.encode().splitlines()[1:-1] == expected[1:-1]


def test_an_export_of_all_leaves_out_runs_under_way(replay: Commands) -> None:
    everything = replay("export", "--all")
    left = sum(map(int, re.findall(r": (\d+) events of a run that is under way", everything.err)))
    assert everything.out.count("\n") == replay.events() - left + 2


def test_nothing_of_a_file_with_a_fault_at_its_end_is_imported(replay: Commands, tmp_path: Path) -> None:
    account = replay.account()
    own = f"{PRO}={account}"
    source = mine_file(tmp_path, "shop")
    before = replay.events()
    lines = source.read_bytes().splitlines(keepends=True)
    cut = replay("import", "-", "--account", own, stdin=b"".join(lines[:-1]))
    assert cut.code == 1
    assert cut.err == f"line {len(lines)}: the end line is missing: the file was cut short"
    unknown = replay("import", str(source))
    assert unknown.code == 1
    assert unknown.err == f"line 2: account {PRO} is not here; name one that is, by --account {PRO}=ID"
    assert replay.events() == before


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["export"], 2, "choose what to export"),
        (["export", "--all", "--account", PRO], 2, "choose what to export"),
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
