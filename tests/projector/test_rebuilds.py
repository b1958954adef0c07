"""A projector of another version than the tables: it brings them up to its own next to the live ones."""

import asyncio

from contracts import events
from contracts.ids import new_id
from conversations.aggregate.conversation import Conversation
from conversations.projections.follower import Follower
from conversations.projections.read_models import PROJECTIONS
from conversations.projections.rebuilding import alone
from projector.rebuilds import Rebuilds
from runtime.postgres import connection
from tests.conversations.given import asked, began, started, turn
from tests.conversations.test_approvals import called, elicitation
from tests.projector.conftest import World


async def followed(follower: Follower) -> None:
    while await follower.step():
        pass


async def of_an_older_version(world: World) -> None:
    async with connection(world.pool) as conn:
        await conn.execute("UPDATE messages SET content = 'as it was'")
        await conn.execute("UPDATE projection_cursors SET versions = versions || '{\"messages\": 0}'")


async def texts(world: World) -> list[str]:
    return [content for (content,) in await world.rows("SELECT content FROM messages ORDER BY position")]


async def counted(world: World) -> int:
    return int((await world.rows("SELECT sum(message_count) FROM conversations"))[0][0])


async def test_it_is_built_again_behind_the_live_one_while_the_others_go_on(world: World) -> None:
    await world.told(*turn("a", "Hello", "Hi"))
    await followed(Follower(world.pool, world.log, PROJECTIONS))
    await of_an_older_version(world)
    follower = Follower(world.pool, world.log, PROJECTIONS, reset=False)
    await world.told(*turn("b", "Hello", "Hi"))
    await followed(follower)
    assert await texts(world) == ["as it was", "as it was"]  # it serves, and waits
    assert await counted(world) == 4
    await Rebuilds(world.url, world.pool, PROJECTIONS, follower.look_again).run()
    assert await texts(world) == ["Hello", "Hi"] * 2
    await world.told(*turn("c", "Hello", "Hi"))
    await followed(follower)
    assert await texts(world) == ["Hello", "Hi"] * 3
    assert await counted(world) == 6


async def test_tables_that_were_never_filled_are_built_too(world: World) -> None:
    await world.told(*turn("a", "Hello", "Hi"))
    follower = Follower(world.pool, world.log, PROJECTIONS, reset=False)
    assert await follower.step() == 0
    await Rebuilds(world.url, world.pool, PROJECTIONS, follower.look_again).run()
    assert await texts(world) == ["Hello", "Hi"]


async def test_while_another_process_builds_it_waits(world: World) -> None:
    await world.told(*turn("a", "Hello", "Hi"))
    await followed(Follower(world.pool, world.log, PROJECTIONS))
    await of_an_older_version(world)
    looked = asyncio.Event()
    rebuilds = Rebuilds(world.url, world.pool, PROJECTIONS, looked.set)
    async with alone(world.pool, "rebuilding", PROJECTIONS):
        running = asyncio.create_task(rebuilds.run())
        refused = asyncio.create_task(looked.wait())
        await asyncio.wait((running, refused), return_when=asyncio.FIRST_COMPLETED)
        assert not running.done()
        assert await texts(world) == ["as it was", "as it was"]
    await running
    assert await texts(world) == ["Hello", "Hi"]


async def test_what_an_earlier_release_parked_or_wrote_in_part_of_a_tools_question_is_built_again(
    world: World,
) -> None:
    asks = events.InputAsked(message="Why?", name="cancel_order", input={"order_id": "ORD-1"}, key="a")
    thread = Conversation(conversation_id=new_id())
    await world.store.append(thread, [began(), asked(), started(), *called(), elicitation(asks)])
    await followed(Follower(world.pool, world.log, PROJECTIONS))
    whole = await approvals(world)
    assert [row[:2] for row in whole] == [("cancel_order", "pending")]
    async with connection(world.pool) as conn:
        await conn.execute("UPDATE approvals SET name = NULL, call_id = 'c2'")
        await conn.execute(
            "INSERT INTO parked_events (projection, position, conversation_id, reason)"
            " VALUES ('approvals', 1, 'c', 'unknown')"
        )
        await conn.execute("UPDATE projection_cursors SET versions = versions || '{\"approvals\": 1}'")
    await Rebuilds(world.url, world.pool, PROJECTIONS, lambda: None).run()
    assert await approvals(world) == whole
    assert await world.rows("SELECT * FROM parked_events") == []


async def approvals(world: World) -> list[tuple[str, ...]]:
    return await world.rows("SELECT name, status, call_id, input FROM approvals")
