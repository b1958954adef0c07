"""`agentchat replay audit`, and heads of days that are kept elsewhere."""

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contracts import ids
from conversations.chain.day_heads import DayHead
from conversations.chain.links import link_of
from ops.replay import signed_heads
from tests.conversations.replay_commands import Commands, mine_file

TODAY = datetime.now(UTC).date()


class _Key:
    """Of a deployment, in base64."""

    def __init__(self) -> None:
        key = Ed25519PrivateKey.generate()
        self.private = base64.b64encode(key.private_bytes_raw()).decode()
        self.public = base64.b64encode(key.public_key().public_bytes_raw()).decode()


@pytest.fixture(scope="module")
def key() -> _Key:
    return _Key()


def imported(replay: Commands, folder: Path, history: str = "sources") -> tuple[str, str]:
    """A conversation and its account."""
    account, path = replay.account(), mine_file(folder, history)
    beginning = json.loads(path.read_bytes().splitlines()[1])
    there = beginning["event"]["account_id"]
    assert replay("import", str(path), "--account", f"{there}={account}").code == 0
    return beginning["conversation_id"], account


def kept_head(replay: Commands, folder: Path, key: _Key, *options: str) -> Path:
    """The head of today as a file."""
    printed = replay("audit", "head", "--day", str(TODAY), *options, AGENTCHAT_AUDIT_KEY=key.private)
    assert (printed.code, printed.err) == (0, "")
    path = folder / "head.json"
    path.write_text(printed.out)
    return path


def change(replay: Commands, conversation_id: str, version: int, *, with_link: bool) -> None:
    """As the database's owner may: an event's content, with the link that fits to it or without."""
    place = "originator_id = %(id)s AND originator_version = %(version)s"
    named = {"id": conversation_id, "version": version}
    columns = "originator_id, originator_version, notification_id, topic, state"
    with psycopg.connect(replay.url) as owner:
        owner.execute(f"UPDATE conversation_events SET state = state || ' ' WHERE {place}".encode(), named)
        if with_link:
            previous = owner.execute(
                f"SELECT hash FROM conversation_events WHERE {place}".encode(),
                named | {"version": version - 1},
            ).fetchone()
            row = owner.execute(
                f"SELECT {columns} FROM conversation_events WHERE {place}".encode(), named
            ).fetchone()
            assert previous is not None
            assert row is not None
            owner.execute(
                f"UPDATE conversation_events SET hash = %(hash)s WHERE {place}".encode(),
                named | {"hash": link_of(previous[0][-32:], *row)},
            )


def last_version(replay: Commands, conversation_id: str) -> int:
    with psycopg.connect(replay.url) as owner:
        query = "SELECT max(originator_version) FROM conversation_events WHERE originator_id = %s"
        row = owner.execute(query, [conversation_id]).fetchone()
    assert row is not None
    return int(row[0])


def test_imported_and_erased_conversations_have_whole_chains(replay: Commands, tmp_path: Path) -> None:
    imported(replay, tmp_path)
    erased, account = imported(replay, tmp_path, "erased")
    done = replay("audit")
    assert done.code == 0
    assert "hash chain OK" in done.out
    told = replay("audit", "--account", account)
    assert f"conversation {erased}: erased at 20" in told.out
    assert "1 conversation erased; 1 of them without proof of what was erased" in told.out
    report = replay("audit", "--conversation", erased, "--json").json
    assert [each["conversation_id"] for each in report["audit"]["erased"]] == [erased]
    assert report["audit"]["events"] == 1


def test_a_head_that_was_kept_is_led_through_until_the_past_is_written_again(
    replay: Commands, tmp_path: Path, key: _Key
) -> None:
    thread, _ = imported(replay, tmp_path)
    head = kept_head(replay, tmp_path, key, "--leaves")
    imported(replay, tmp_path)
    kept = replay("audit", "--against", str(head), "--public-key", key.public)
    assert (kept.code, kept.out.count(f"{TODAY}: OK: the log matches the signed hash of the day")) == (0, 1)
    change(replay, thread, last_version(replay, thread), with_link=True)
    assert replay("audit").code == 0
    found = replay("audit", "--against", str(head), AGENTCHAT_AUDIT_KEY=key.private)
    assert found.code == 1
    assert "hash chain OK" in found.out
    assert f"{TODAY}: conversation {thread} is not what it was" in found.out


@pytest.mark.parametrize(("days", "code", "said"), [(401, 0, "not compared"), (400, 1, "not what they were")])
def test_a_head_whose_leaves_are_dropped_for_their_age_fails_no_audit(
    replay: Commands, tmp_path: Path, key: _Key, days: int, code: int, said: str
) -> None:
    imported(replay, tmp_path)
    day = TODAY - timedelta(days=days)
    head = DayHead(day=day, after=0, through=1, conversations=2, sha256="00" * 32)
    private = Ed25519PrivateKey.from_private_bytes(base64.b64decode(key.private))
    path = tmp_path / "old.json"
    path.write_bytes(msgspec.json.encode(signed_heads.signed(head, (), private)))
    found = replay("audit", "--against", str(path), "--public-key", key.public)
    assert (found.code, said in found.out) == (code, True), found.out


def test_a_changed_event_is_named(replay: Commands, tmp_path: Path) -> None:
    thread, account = imported(replay, tmp_path)
    other, _ = imported(replay, tmp_path)
    change(replay, thread, 3, with_link=False)
    for scope in ((), ("--account", account), ("--conversation", thread)):
        found = replay("audit", *scope)
        assert found.code == 1
        assert f"conversation {thread}: broken at version 3 (position " in found.out
    assert replay("audit", "--conversation", other).code == 0
    report = replay("audit", "--json")
    assert report.code == 1
    assert [each["version"] for each in json.loads(report.out)["audit"]["broken"]] == [3]


@pytest.mark.parametrize("field", ["day", "after", "through", "conversations", "sha256"])
def test_a_head_that_was_changed_is_refused(replay: Commands, tmp_path: Path, key: _Key, field: str) -> None:
    path = kept_head(replay, tmp_path, key)
    head = json.loads(path.read_text())
    value = head["head"][field]
    changed = {"day": "2026-01-02", "sha256": "00"}.get(field, value if isinstance(value, str) else value + 1)
    path.write_text(json.dumps(head | {"head": head["head"] | {field: changed}}))
    refused = replay("audit", "--against", str(path), "--public-key", key.public)
    assert (refused.code, "of no key that is trusted" in refused.err) == (1, True)


def test_a_head_of_another_key_or_with_other_leaves_is_refused(
    replay: Commands, tmp_path: Path, key: _Key
) -> None:
    imported(replay, tmp_path)
    path = kept_head(replay, tmp_path, key, "--leaves")
    other = replay("audit", "--against", str(path), "--public-key", _Key().public)
    assert other.code == 1
    both = replay("audit", "--against", str(path), "--public-key", _Key().public, "--public-key", key.public)
    assert "of no key" not in both.err
    head = json.loads(path.read_text())
    path.write_text(json.dumps(head | {"leaves": head["leaves"][:-1]}))
    refused = replay("audit", "--against", str(path), "--public-key", key.public)
    assert (refused.code, "its leaves are not those" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--conversation", ids.new_id()), "no such conversation"),
        (("--account", ids.new_id()), "no such account"),
        (("--conversation", ids.new_id(), "--to", "3"), "audit the complete log"),
        (("--conversation", ids.new_id(), "--account", ids.new_id()), "choose what to audit"),
        (("head",), "AGENTCHAT_AUDIT_KEY is not set"),
        (("head", "--day", str(TODAY + timedelta(days=2))), "has not begun"),
        (("head", "--day", "yesterday"), "2026-11-21"),
        (("--against", "nowhere.json", "--public-key", _Key().public), "cannot be read"),
        (("--against", "nowhere.json"), "no key to check the signature with"),
        (("--against", "nowhere.json", "--public-key", "abc"), "must be 32 bytes in base64"),
        (("--against", str(Path(__file__)), "--public-key", _Key().public), "is no head of a day"),
    ],
)
def test_what_cannot_be_audited_is_refused(replay: Commands, arguments: tuple[str, ...], reason: str) -> None:
    refused = replay("audit", *arguments)
    assert (refused.code, reason in refused.err) == (2, True), refused.err
