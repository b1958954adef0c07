"""Export and import: the same events on the other side, or the line of a file that is not whole."""

import io
import random
from collections.abc import Callable

import pytest

from contracts import ids
from conversations.errors import VersionConflict
from conversations.event_store import mapper
from conversations.event_store.log import Log
from conversations.event_store.store import ConversationStore
from conversations.transfer import file_format, moving
from conversations.transfer.file_format import Carried, FileEvent, FileWriter, UnfitFile, read, settled
from conversations.transfer.moving import Clash, Move, Names
from runtime.postgres import Pool, connection
from tests.conversations import given, recorded

PRO, LOAD = "019a0000-0000-7000-8000-000000000001", "019a0000-0000-7000-8000-000000000003"
SHOP_AGENT = "019a0000-0000-7000-8000-000000000011"
_Lines = list[bytes]


@pytest.mark.parametrize("name", recorded.WHOLE)
async def test_a_round_trip_gives_the_same_lines(
    store: ConversationStore, log: Log, pool: Pool, name: str
) -> None:
    carried = recorded.carried(name)
    move = await moving.planned(pool, carried)
    assert move == Move("new", carried.stored[0].version - 1)
    await moving.bring(store, carried, move)
    assert (await moving.planned(pool, carried)).kind == "present"
    out = await moving.outgoing(log, carried.conversation_id)
    assert out.left == 0
    written = io.BytesIO()
    writer = FileWriter(written, exported_at="now")
    writer.add(out.entries)
    writer.end()
    assert written.getvalue().splitlines()[1:-1] == recorded.path(name).read_bytes().splitlines()[1:-1]


async def test_a_long_conversation_is_stored_in_pieces_between_its_runs(
    store: ConversationStore, pool: Pool
) -> None:
    """What one that broke off has left is a shorter conversation, which the next import continues."""
    id_ = ids.new_id()
    facts = [
        given.began(),
        *(event for word in range(300) for event in given.turn(f"m{word}", "Hello", "Hi")),
    ]
    stored = [FileEvent(version, *fact) for version, fact in enumerate(mapper.stored(facts), start=1)]
    carried = Carried(line=2, conversation_id=id_, account_id=PRO, agents=frozenset(), stored=tuple(stored))
    await moving.bring(store, carried, Move("new", 0))
    async with connection(pool) as conn:
        query = (
            "SELECT count(*), max(originator_version) FROM conversation_events WHERE originator_id = %s"
            " GROUP BY xmin ORDER BY 2"
        )
        pieces = await (await conn.execute(query, [id_])).fetchall()
    assert len(pieces) == -(-len(facts) // moving.PIECE)
    for size, last in pieces:
        assert size <= moving.PIECE
        assert settled(facts[:last]) == last
    assert (await moving.planned(pool, carried)).kind == "present"


async def test_what_went_on_there_goes_on_here(store: ConversationStore, pool: Pool) -> None:
    carried = mine(recorded.carried("shop"))
    facts = recorded.facts(carried)
    cut = next(place for place in range(1, len(facts)) if settled(facts[:place]) == place > 1)
    first = replaced(carried, stored=carried.stored[:cut])
    await moving.bring(store, first, await moving.planned(pool, first))
    move = await moving.planned(pool, carried)
    assert move == Move("longer", cut)
    await moving.bring(store, carried, move)
    assert (await moving.planned(pool, first)).kind == "present"  # it is further here
    with pytest.raises(VersionConflict):
        await moving.bring(
            store, replaced(carried, stored=mine_stored(carried, b"Thanks!", b"THANKS!")), move
        )
    assert (await moving.planned(pool, carried)).kind == "present"


async def test_a_conversation_of_another_content_clashes(
    store: ConversationStore, log: Log, pool: Pool
) -> None:
    carried = mine(recorded.carried("failed"))
    await moving.bring(store, carried, await moving.planned(pool, carried))
    other = replaced(carried, stored=mine_stored(carried, b"Say something.", b"Say nothing."))
    with pytest.raises(Clash, match=rf"line 2: conversation {carried.conversation_id} is here with other"):
        await moving.planned(pool, other)
    erased = recorded.carried("erased")
    late = replaced(carried, conversation_id=erased.conversation_id)
    await moving.bring(store, erased, await moving.planned(pool, erased))
    with pytest.raises(Clash, match="was erased here"):
        await moving.planned(pool, late)


async def test_of_a_run_under_way_nothing_leaves(store: ConversationStore, log: Log) -> None:
    conversation_id = ids.new_id()
    conversation = await store.load(conversation_id)
    done = [given.began(), *given.turn("a", "Hi", "Hello"), given.asked("b"), given.started("b")]
    await store.append(conversation, done)
    out = await moving.outgoing(log, conversation_id)
    assert len(out.entries) == len(done) - 2
    assert out.left == 2


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
            "nothing comes after an erasure",
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


def mine(carried: file_format.Carried) -> file_format.Carried:
    """As a conversation of its own."""
    return replaced(carried, conversation_id=ids.new_id())


def replaced(carried: file_format.Carried, **fields: object) -> file_format.Carried:
    return file_format.Carried(
        **{name: getattr(carried, name) for name in carried.__struct_fields__} | fields
    )


def mine_stored(carried: file_format.Carried, old: bytes, new: bytes) -> tuple[file_format.FileEvent, ...]:
    assert any(old in each.state for each in carried.stored)
    return tuple(
        file_format.FileEvent(each.version, each.topic, each.state.replace(old, new))
        for each in carried.stored
    )
