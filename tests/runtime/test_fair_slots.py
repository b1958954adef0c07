"""Places are shared out among keys: a key that holds none gets one at once, whatever others hold or want."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentchat.runtime.fair_slots import FairSlots, SlotsClosed


@pytest.mark.parametrize(("keys", "each"), [(1, 32), (2, 21), (3, 16), (7, 8)])
async def test_greedy_keys_get_equal_shares_and_leave_one_free(keys: int, each: int) -> None:
    turns, held = FairSlots(64), Counter[str]()
    for _ in range(64):
        for key in "abcdefg"[:keys]:
            held[key] += turns.try_take(key)
    assert set(held.values()) <= {each, each + 1}
    assert sum(held.values()) < 64
    assert turns.try_take("newcomer")


async def test_waiters_are_served_in_turns_of_their_keys() -> None:
    turns, served = FairSlots(2), list[str]()
    await turns.take("a")

    async def work(name: str) -> None:
        async with turns.turn(name[0]):
            served.append(name)
            await asyncio.sleep(0)

    await turns.take("b")
    waiting = [asyncio.create_task(work(name)) for name in ("a1", "a2", "a3", "b1", "b2", "c1")]
    await asyncio.sleep(0)
    assert served == []
    turns.release("a")
    turns.release("b")
    await asyncio.gather(*waiting)
    assert [name for name in served if name[0] == "a"] == ["a1", "a2", "a3"]
    assert {name[0] for name in served[:3]} == {"a", "b", "c"}
    assert turns.idle


async def test_who_is_cancelled_leaves_the_line_and_keeps_no_place() -> None:
    turns = FairSlots(1)
    await turns.take("a")
    first, second, third = (asyncio.create_task(turns.take(key)) for key in ("a", "b", "c"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    turns.release("a")  # b has the place from here on, and does not know it yet
    second.cancel()
    await asyncio.wait((second,))
    assert second.cancelled()
    await third
    turns.release("c")
    assert turns.idle


async def test_closing_ends_all_waits() -> None:
    turns = FairSlots(1)
    await turns.take("a")
    waiting = asyncio.create_task(turns.take("b"))
    await asyncio.sleep(0)
    turns.close()
    with pytest.raises(SlotsClosed):
        await waiting
    with pytest.raises(SlotsClosed):
        await turns.take("c")
    turns.release("a")


@given(
    st.integers(1, 8),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=60),
)
def test_nobody_waits_while_a_place_may_be_had_and_no_place_is_lost(
    places: int, moves: list[tuple[str, int, bool]]
) -> None:
    """The random actions are take (0, 1), give back (2) and stop waiting (3), some in quick succession."""

    async def play() -> None:
        turns, tasks, held = FairSlots(places), list[tuple[str, asyncio.Task[None]]](), Counter[str]()
        for key, move, hurried in moves:
            ready = [(name, task) for name, task in tasks if task.done()]
            if move < 2:
                tasks.append((key, asyncio.create_task(turns.take(key))))
            elif ready and move == 2:
                tasks.remove(ready[0])
                turns.release(ready[0][0])
            elif tasks and not tasks[-1][1].done():
                tasks.pop()[1].cancel()
            if hurried:
                continue
            for _ in range(3):
                await asyncio.sleep(0)
            held = Counter(name for name, task in tasks if task.done())
            free = places - held.total()
            assert free >= 0
            assert all(task.done() or held[name] >= free for name, task in tasks)
        await asyncio.sleep(0)
        while tasks:
            name, task = next(entry for entry in tasks if entry[1].done())
            tasks.remove((name, task))
            turns.release(name)
            for _ in range(3):
                await asyncio.sleep(0)
        assert turns.idle

    asyncio.run(play())
