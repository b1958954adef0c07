"""A log of any length that looks like a real one: threads of several turns, side by side, with tools."""

import random
from collections.abc import Iterator
from itertools import islice

import psycopg

from bench.histories import Row, copy_in, row
from contracts import events
from contracts.ids import new_id
from contracts.values import Source, Usage

AT_ONCE = 50
"""So many threads grow side by side, a turn each at a time."""

_AT = "2026-11-21T09:{:02d}:{:02d}.{:06d}Z"
_TEXT = "the order was sent on Monday and should arrive within three days at the address you gave us"
_WORDS = _TEXT.split()
_CHUNK = 20_000


def fill(database_url: str, count: int, seed: int = 1) -> None:
    """Put `count` events into an empty log, by COPY. Raises psycopg.Error."""
    produced = rows(count, random.Random(seed))
    with psycopg.connect(database_url, autocommit=True) as conn:
        for _ in range(0, count, _CHUNK):
            copy_in(conn, islice(produced, _CHUNK))
        conn.execute("ANALYZE")


def rows(count: int, dice: random.Random) -> Iterator[Row]:
    """The first `count` events of threads that go on for ever."""
    threads = [_Thread(dice) for _ in range(AT_ONCE)]
    while count > 0:
        index = dice.randrange(AT_ONCE)
        for event in threads[index].turn():
            yield threads[index].row(event)
            count -= 1
            if count == 0:
                return
        if threads[index].turns == 0:
            threads[index] = _Thread(dice)


def long_thread(count: int, dice: random.Random) -> list[events.Event]:
    """The first `count` events of one thread."""
    thread, made = _Thread(dice), list[events.Event]()
    while len(made) < count:
        thread.turns = 2  # never the last one
        made += [
            event for event in thread.turn() if not (made and isinstance(event, events.ConversationStarted))
        ]
    return made[:count]


class _Thread:
    """One conversation; `turns` are those that are left."""

    def __init__(self, dice: random.Random) -> None:
        self.turns = dice.randint(1, 8)
        self._dice = dice
        self._id = new_id()
        self._version = 0
        self._account = f"account-{dice.randrange(20)}"
        self._agent = f"agent-{dice.randrange(100)}"

    def row(self, event: events.Event) -> Row:
        self._version += 1
        return row(self._id, self._version, event)

    def turn(self) -> list[events.Event]:
        """From the user's message to the end of its run; one thread in 200 is erased at its end."""
        dice, trace, made = self._dice, new_id().replace("-", ""), list[events.Event]()
        at = _AT.format(dice.randrange(60), dice.randrange(60), dice.randrange(10**6))
        if self._version == 0:
            made.append(events.ConversationStarted(trace_id=trace, at=at, account_id=self._account))
        made += [self._message(trace, at, "user", 30), _started(trace, at)]
        if dice.random() < 0.3:
            made.append(events.SourcesRetrieved(trace_id=trace, at=at, sources=tuple(map(_source, range(5)))))
        rounds = 1 + (dice.random() < 0.6) * dice.randint(1, 3)
        for number in range(1, rounds):
            made += self._tools(trace, at, number)
        made += self._reply(trace, at, rounds)
        self.turns -= 1
        if self.turns == 0 and dice.random() < 1 / 200:
            made.append(events.ConversationErased(trace_id=trace, at=at, account_id=self._account))
        return made

    def _tools(self, trace: str, at: str, number: int) -> list[events.Event]:
        call = f"call-{number}"
        given: dict[str, object] = {"order_id": call * 3}
        block: dict[str, object] = {"type": "tool_use", "id": call, "name": "get_order", "input": given}
        return [
            _replied(trace, at, number, [block]),
            events.ToolCalled(
                trace_id=trace, at=at, round=number, call_id=call, name="get_order", input=given
            ),
            events.ToolReturned(
                trace_id=trace,
                at=at,
                round=number,
                call_id=call,
                output=f'{{"text":"{self._text(80)}"}}',
                is_error=self._dice.random() < 0.05,
                ms=self._dice.randint(5, 900),
            ),
        ]

    def _reply(self, trace: str, at: str, number: int) -> list[events.Event]:
        usage = Usage(input_tokens=self._dice.randint(200, 4000), output_tokens=self._dice.randint(20, 400))
        if self._dice.random() < 0.03:
            return [events.RunFailed(trace_id=trace, at=at, code="provider_error", message="x", usage=usage)]
        text = self._text(120)
        cuts = tuple(range(12, len(text), 12))
        return [
            events.Delta(trace_id=trace, at=at, round=number, text=text, cuts=cuts),
            _replied(trace, at, number, [{"type": "text", "text": text}]),
            self._message(trace, at, "assistant", 120),
            events.RunCompleted(trace_id=trace, at=at, usage=usage, rounds=number),
        ]

    def _message(self, trace: str, at: str, role: str, words: int) -> events.MessageSaved:
        return events.MessageSaved(
            trace_id=trace,
            at=at,
            message_id=new_id(),
            role="user" if role == "user" else "assistant",
            agent_id=self._agent,
            content=self._text(words),
            token_count=None if role == "user" else 400,
        )

    def _text(self, words: int) -> str:
        return " ".join(self._dice.choices(_WORDS, k=self._dice.randint(words // 3, words)))


def _started(trace: str, at: str) -> events.RunStarted:
    return events.RunStarted(
        trace_id=trace, at=at, attempt=1, agent_version=3, model="demo-shop-1", form="form1"
    )


def _replied(trace: str, at: str, number: int, blocks: list[dict[str, object]]) -> events.ModelReplied:
    usage = Usage(input_tokens=900, output_tokens=60)
    return events.ModelReplied(
        trace_id=trace, at=at, round=number, blocks=tuple(blocks), stop_reason="end_turn", usage=usage
    )


def _source(index: int) -> Source:
    return Source(
        index=index + 1,
        id=f"passage-{index}",
        title="Delivery times",
        url="https://example.com/delivery",
        source_type="knowledge_base",
        score=0.5,
        snippet=_TEXT,
    )
