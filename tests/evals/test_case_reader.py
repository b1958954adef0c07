"""`agentchat eval collect`, `add` and `sync` on a log: what is chosen, and what becomes of it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
import pytest

from agentchat.administration import admin_agents
from agentchat.administration.admin_values import NewAgent
from agentchat.contracts import events
from agentchat.contracts.examples import FILE
from agentchat.contracts.ids import make_id
from agentchat.contracts.values import Decider
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store import mapper
from agentchat.conversations.event_store.conversation_store import ConversationStore, open_store
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.find_by_trace import load_run
from agentchat.evals.cases import Case, encode_case, read_cases, write_cases
from agentchat.evals.suite import read_suite
from agentchat.runtime.postgres import Pool, open_pool
from tests.admin_cli.conftest import SECRET_KEY, Done
from tests.conversations import given, recorded
from tests.conversations.replay_commands import Commands
from tests.evals.made_cases import RUNS

T = TypeVar("T")
WITH_FILE = msgspec.structs.replace(
    given.build_user_message("file", "Read this invoice"), attachments=(FILE,)
)
FAILED, ADA = given.trace("failed"), "ada@shop.example"


class ShopLog(NamedTuple):
    """A log with runs of one agent of an account, and of an agent of another one."""

    commands: Commands
    account: str
    agent: str
    other_account: str

    def __call__(self, *arguments: str | Path) -> Done:
        return self.commands.run("eval", *map(str, arguments), AGENTCHAT_SECRET_KEY=SECRET_KEY)

    def collect_cases(self, folder: Path, *arguments: str) -> list[Case]:
        done = self("collect", "-o", folder, "--agent", self.agent, *arguments)
        assert done.code == 0, done.err
        return read_written_cases(folder)

    def work(self, work: Callable[[Pool, ConversationStore], Awaitable[T]]) -> T:
        async def run() -> T:
            async with open_pool(self.commands.url) as pool, open_store(self.commands.url) as store:
                return await work(pool, store)

        return asyncio.run(run())


def read_written_cases(folder: Path) -> list[Case]:
    return read_cases(read_suite(folder).cases)


@pytest.fixture(scope="module")
def shop(migrated_database_url: str) -> ShopLog:
    commands = Commands(migrated_database_url)
    account, other = commands.account(), commands.account()
    agent = commands.administer(
        lambda admin: admin_agents.create(
            admin,
            NewAgent(
                account_id=account, name="Shop", model="demo-shop-1", provider_key="sk-secret-0123456789"
            ),
        )
    ).id
    found = ShopLog(commands, account, agent, other)
    found.work(lambda pool, store: _fill(found, pool, store))
    commands.project()
    return found


async def _fill(shop: ShopLog, pool: Pool, store: ConversationStore) -> None:
    for name in RUNS:
        carried = recorded.encode_carried(name)
        names = {carried.account_id: shop.account} | dict.fromkeys(
            carried.find_values("agent_id"), shop.agent
        )
        await recorded.store_recorded(store, recorded.rename_ids(carried, names))
    for word, account in (("failed", shop.account), ("other", shop.other_account)):
        await _append(store, account, shop.agent, *_build_failed(word))
    german = given.turn(
        "german", "Wo ist meine Bestellung? Ich warte schon lange darauf.", "It is on its way."
    )
    german = tuple(
        msgspec.structs.replace(each, model="demo-shop-1") if isinstance(each, events.ModelReplied) else each
        for each in german
    )
    await _append(store, shop.account, shop.agent, *german, *given.turn("short", "ORD-1001", "Yes."))
    for number in range(30):
        waited = given.turn(
            f"english{number}", "Where is my order? I have waited for it.", "It is on its way."
        )
        await _append(store, shop.account, shop.agent, *waited)
    for word, score in (("bad", -0.5), ("neutral", 0.0)):
        rated = events.FeedbackGiven(
            trace_id=given.trace(word),
            at=given.LATER,
            message_id=f"reply-{word}",
            score=score,
            by=Decider(kind="account", id="key-1"),
            comment=f"{ADA} waits",
        )
        await _append(
            store,
            shop.account,
            shop.agent,
            *given.turn(word, "Rate this", "No."),
            rated,
            *given.turn(f"{word}2", "So?", "So."),
        )
    _, *answered = given.turn("file", "Read this invoice", "Done.")
    await _append(
        *(store, shop.account, shop.agent, WITH_FILE),
        *(*answered, *given.turn("file2", "What does the invoice cost?", "12 euros.")),
    )
    await _append(
        store, shop.account, shop.agent, given.build_user_message("open"), given.build_run_started("open")
    )


def _build_failed(word: str) -> list[events.Event]:
    return [
        given.build_user_message(word, f"I am {ADA}, where is it?"),
        given.build_run_started(word),
        *given.build_tool_called([given.use("1", email=ADA)], word),
        given.build_tool_returned("1", json.dumps({"email": ADA, "phone": "+49 171 1234567"}), word),
        given.build_run_failed(word),
    ]


async def _append(store: ConversationStore, account: str, agent: str, *stored: events.Event) -> str:
    began = msgspec.structs.replace(given.build_conversation_started(), account_id=account)
    mine = [
        msgspec.structs.replace(each, agent_id=agent, message_id=make_id())
        if isinstance(each, events.MessageSaved)
        else each
        for each in stored
    ]
    thread = await store.append(Conversation(conversation_id=make_id()), [began, *mine])
    return thread.conversation_id


def test_a_case_is_its_run_up_to_its_end(shop: ShopLog, tmp_path: Path) -> None:
    """Also where the conversation went on, was forked, compacted, or waited for a person."""
    cases = shop.collect_cases(tmp_path, "--sample", "1000")

    async def compare(pool: Pool, _: ConversationStore) -> None:
        log = Log(pool)
        for case in cases:
            found = await load_run(pool, case.id)
            assert found is not None
            conversation_id, recorded_run = found
            entries = await log.read_rows(conversation_id, until_version=len(case.events))
            assert (case.account_id, case.conversation_id) == (shop.account, conversation_id)
            conversation, run = case.fold_events()
            assert conversation.version == len(case.events)
            assert conversation.runs[-1].trace_id == case.id
            if not case.redacted:
                assert msgspec.structs.replace(run, version=0) == msgspec.structs.replace(
                    recorded_run, version=0
                )
                assert [bytes(each) for each in case.events] == [entry.state for entry in entries]

    shop.work(compare)
    ends = {case.slices["end"] for case in cases}
    assert {each.partition(":")[0] for each in ends} == {"completed", "cancelled", "failed"}
    assert given.trace("open") not in {case.id for case in cases}
    languages = {case.id: case.slices["language"] for case in cases}
    assert {languages[given.trace(word)] for word in ("english1", "german")} == {"en", "de"}
    assert languages[given.trace("short")] == "de", "too short to tell, but for what came before"


def test_runs_whose_conversation_has_files_are_counted(shop: ShopLog, tmp_path: Path) -> None:
    """A later run of the conversation too: its model saw the file."""
    done = shop("collect", "-o", tmp_path, "--agent", shop.agent, "--text", "invoice", "--json")

    assert done.code == 0, done.err
    assert {name: json.loads(done.out)[name] for name in ("cases", "fitting", "with_files", "left_out")} == {
        "cases": 0,
        "fitting": 2,
        "with_files": 2,
        "left_out": [],
    }
    assert "left out 2 runs: the conversation has files" in done.err
    assert read_written_cases(tmp_path) == []


def test_the_first_collected_cases_are_redacted(shop: ShopLog, tmp_path: Path) -> None:
    (case,) = shop.collect_cases(tmp_path, "--end", "failed", "--text", "where is it")

    assert case.id == FAILED
    assert case.message == "I am person1@example.com, where is it?"
    assert case.redacted == ("email", "phone")
    (call,) = case.fold_run().rounds[0].calls
    assert call.input == {"email": "person1@example.com"}
    assert call.output == '{"email":"person1@example.com","phone":"[phone 1]"}'
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert ADA.encode() not in written
    assert b"sk-secret" not in written
    assert read_suite(tmp_path).agent.settings.name == "Shop"


def test_feedback_is_in_the_case_and_not_in_its_events(shop: ShopLog, tmp_path: Path) -> None:
    (case,) = shop.collect_cases(tmp_path, "--rating", "bad")

    assert case.feedback == -0.5
    assert case.slices["rating"] == "bad"
    assert case.slices["length"] == "1"
    assert b"feedback_given" not in b"".join(bytes(each) for each in case.events)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--end", "failed", "--tool", "get_order"], {"failed"}),
        (["--text", "Bestellung"], {"german"}),
        (["--rating", "bad", "--text", "Rate"], {"bad"}),
        (["--text", "darauf", "--from", "2026-11-21T09:00:00Z", "--to", "2026-11-21T09:45:00Z"], {"german"}),
        (["--text", "darauf", "--from", "2026-11-22"], set()),
        (["--text", "darauf", "--cost", "0.000001"], {"german"}),
    ],
)
def test_runs_are_chosen_by(arguments: list[str], found: set[str], shop: ShopLog, tmp_path: Path) -> None:
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"demo-shop-1": {"input": 1, "output": 1}}}')
    cases = shop.collect_cases(tmp_path / "suite", *arguments, "--prices", str(prices))
    assert {case.id for case in cases} == {given.trace(each) for each in found}


def test_a_sample_keeps_what_is_rare(shop: ShopLog, tmp_path: Path) -> None:
    """Of more than fifty runs, thirty of one kind, it has each of the others before a second of that kind."""
    cases = shop.collect_cases(tmp_path / "a", "--sample", "30")
    common = [case for case in cases if case.message.startswith("Where is my order? I have waited")]

    assert len(cases) == 30
    assert {given.trace("german"), FAILED} <= {case.id for case in cases}
    assert 1 <= len(common) <= 5, len(common)
    again = shop.collect_cases(tmp_path / "b", "--sample", "30")
    assert [case.id for case in again] == [case.id for case in cases]
    other = shop.collect_cases(tmp_path / "c", "--sample", "30", "--seed", "7")
    assert [case.id for case in other] != [case.id for case in cases]


def test_cases_with_files_of_an_earlier_release_go(shop: ShopLog, tmp_path: Path) -> None:
    cases = shop.collect_cases(tmp_path, "--text", "Bestellung")
    ((_, state),) = mapper.encode_pairs([WITH_FILE])
    old = msgspec.structs.replace(cases[0], id="old", events=(msgspec.Raw(state), *cases[0].events))
    write_cases(read_suite(tmp_path).cases, [*cases, old])
    done = shop("collect", "-o", tmp_path, "--text", "Bestellung")
    assert "removed 1 case of the suite that had files" in done.err
    assert read_written_cases(tmp_path) == cases


def test_collecting_again_keeps_the_owners_evaluators(shop: ShopLog, tmp_path: Path) -> None:
    (german,) = shop.collect_cases(tmp_path, "--text", "Bestellung")
    checked = msgspec.structs.replace(german, evaluators=({"Contains": {"value": "unterwegs"}},))
    read_suite(tmp_path).cases.write_bytes(encode_case(checked))
    settings = tmp_path / "suite.yaml"
    settings.write_text(settings.read_text() + "  - {name: wait, pattern: waited}\n")
    ignored = tmp_path / ".gitignore"
    assert "results*.jsonl" in ignored.read_text()
    ignored.write_text("report.html\n")

    cases = shop.collect_cases(tmp_path, "--text", "darauf")
    assert [case.id for case in cases if case.evaluators] == [german.id]
    assert cases[0].evaluators == checked.evaluators

    settings.write_text(settings.read_text() + "  - {name: order, pattern: Bestellung}\n")
    more = shop.collect_cases(tmp_path, "--text", '"waited"', "--sample", "5")
    assert len(more) == 6
    assert [case.message for case in more if case.id != german.id] == [
        "Where is my order? I have [wait 1] for it."
    ] * 5
    assert next(case.message for case in more if case.id == german.id) == (
        "Wo ist meine [order 1]? Ich warte schon lange darauf."
    )

    alone = shop.collect_cases(tmp_path, "--text", "Bestellung", "--replace")
    assert [case.id for case in alone] == [german.id]
    assert not alone[0].evaluators
    assert ignored.read_text() == "report.html\n"


def test_a_run_is_added_by_its_trace(shop: ShopLog, tmp_path: Path) -> None:
    (german,) = shop.collect_cases(tmp_path, "--text", "Bestellung")

    done = shop("add", tmp_path, FAILED)

    assert done.code == 0, done.err
    assert {case.id for case in read_written_cases(tmp_path)} == {german.id, FAILED}
    assert ADA not in (tmp_path / "cases.jsonl").read_text()


@pytest.mark.parametrize(
    ("trace_id", "reason"),
    [
        (given.trace("nobody"), "there is no such run"),
        (given.trace("open"), "it has not ended"),
        (given.trace("other"), "it is another account's"),
        (given.trace("file"), "its conversation has files, which a case cannot have"),
    ],
)
def test_a_run_that_cannot_be_a_case_is_named_and_none_is_added(
    trace_id: str, reason: str, shop: ShopLog, tmp_path: Path
) -> None:
    before = shop.collect_cases(tmp_path, "--text", "Bestellung")

    done = shop("add", tmp_path, FAILED, trace_id)

    assert done.code == 2
    assert f"run {trace_id}: {reason}" in done.err
    assert read_written_cases(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["collect", "-o", "{}"], "name the agent whose runs are collected by --agent"),
        (["collect", "-o", "{}", "--agent", "nobody"], "no such agent: nobody"),
        (["collect", "-o", "{}", "--agent", "a", "--end", "lost"], "--end: 'lost' is not one of"),
        (["collect", "-o", "{}", "--agent", "a", "--prices", "{}/none"], "cannot be read"),
        (["collect", "-o", "{}", "--agent", "a", "--from", "soon"], "--from: 'soon' is not a time"),
        (["add", "{}", FAILED], "is not a suite (no suite.yaml)"),
        (["sync", "{}"], "is not a suite (no suite.yaml)"),
    ],
)
def test_a_wrong_command_writes_nothing(
    arguments: list[str], named: str, shop: ShopLog, tmp_path: Path
) -> None:
    done = shop(*(each.format(tmp_path) for each in arguments))
    assert done.code == 2
    assert named in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_suite_that_cannot_be_written_is_a_wrong_command(shop: ShopLog, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    done = shop("collect", "-o", file, "--agent", shop.agent, "--text", "Bestellung")
    assert (done.code, "file: no folder can be made there" in done.err) == (2, True)


def test_tools_are_listed_or_nothing_is_collected(shop: ShopLog, tmp_path: Path) -> None:
    server = {"name": "shop", "url": "https://tools.example/mcp?key=secret", "headers": {"X-Key": "secret"}}
    agent = shop.commands.administer(
        lambda admin: admin_agents.create(
            admin,
            msgspec.convert(
                {"account_id": shop.account, "name": "T", "model": "m", "mcp_servers": [server]}, NewAgent
            ),
        )
    ).id
    shop.work(lambda _, store: _append(store, shop.account, agent, *given.turn("tools", "Hello", "Hi")))
    shop.commands.project()

    done = shop("collect", "-o", tmp_path, "--agent", agent)

    assert done.code == 1
    assert "cannot list the tools of agent T without NATS" in done.err
    assert list(tmp_path.iterdir()) == []


def test_sync_removes_cases_whose_conversations_were_deleted(shop: ShopLog, tmp_path: Path) -> None:
    async def add_three(_: Pool, store: ConversationStore) -> list[str]:
        return [
            await _append(store, shop.account, shop.agent, *given.turn(f"sync{each}", f"Sync {each}", "Yes."))
            for each in range(3)
        ]

    conversations = shop.work(add_three)
    shop.commands.project()
    cases = shop.collect_cases(tmp_path, "--text", "Sync")
    assert len(cases) == 3
    assert shop("sync", tmp_path).code == 0
    assert read_written_cases(tmp_path) == cases

    async def erase(_: Pool, store: ConversationStore) -> None:
        thread = await store.load(conversations[0])
        await store.append(thread, [msgspec.structs.replace(given.ERASED, account_id=shop.account)])

    shop.work(erase)
    done = shop("sync", tmp_path)
    assert done.code == 0
    assert "1 case removed, 2 left" in done.err
    assert read_written_cases(tmp_path) == [
        each for each in cases if each.conversation_id != conversations[0]
    ]
