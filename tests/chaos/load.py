"""The load: clients hold the plan's conversations, and do what a careful client does when it fails."""

import asyncio
import contextlib
import uuid
from collections.abc import Mapping, Sequence

import msgspec

from tests.chaos.client import call_gateway, perform
from tests.chaos.people import People, list_pending_approvals
from tests.chaos.plan import Step, Talk
from tests.chaos.records import Ask, Clock, Exchange
from tests.chaos.tail import Tail

_TRY_SECONDS = 40.0
_PAUSE_SECONDS = 0.5
_REFUSED_FOR_NOW = (429, 500, 503)
_PROBES_AT_ONCE = 8


class Access(msgspec.Struct, frozen=True):
    """How an account reaches its agents, by what they are like."""

    account_id: str
    api_key: str
    agents: dict[str, str]


class Load:
    """Sends through `ports`, the client's links to the gateways; `asks`, `exchanges`: what came of it.

    `people` decide what its messages make runs wait for.
    """

    def __init__(self, ports: Sequence[int], access: Mapping[str, Access], tail: Tail, clock: Clock) -> None:
        self.asks: list[Ask] = []
        self.exchanges: list[Exchange] = []
        self._ports = ports
        self._access = access
        self._tail = tail
        self._clock = clock
        self.people = People(ports, {name: each.api_key for name, each in access.items()})

    async def run(self, talks: Sequence[Talk]) -> None:
        """Hold them all, each from its time on."""
        async with asyncio.TaskGroup() as group:
            for talk in talks:
                group.create_task(self._talk(talk))

    async def probe(self, conversations: Mapping[str, tuple[str, str]]) -> None:
        """A further message to every conversation, given as its id to account and agent."""
        places = asyncio.Semaphore(_PROBES_AT_ONCE)

        async def one(conversation: str, account: str, agent: str) -> None:
            async with places:
                ask = str(uuid.uuid5(uuid.NAMESPACE_URL, conversation))
                text = f"[[u:{ask}]] [[acct:{account}]] still there?"
                self.asks.append(Ask(ask=ask, account=account, agent=agent, text=text))
                exchange = Exchange(
                    ask=ask,
                    account=account,
                    form="form1",
                    gateway="gateway-1",
                    began=self._clock.now(),
                    conversation=conversation,
                    probe=True,
                )
                await self._perform(exchange, agent, text)

        async with asyncio.TaskGroup() as group:
            for conversation, (account, agent) in conversations.items():
                group.create_task(one(conversation, account, agent))

    async def _talk(self, talk: Talk) -> None:
        await asyncio.sleep(max(0.0, talk.at - self._clock.now()))
        if talk.rush:
            await asyncio.gather(*(self._step(talk, step, None) for step in talk.steps))
            return
        conversation: str | None = None
        for step in talk.steps:
            conversation = await self._step(talk, step, conversation) or conversation

    async def _step(self, talk: Talk, step: Step, conversation: str | None) -> str | None:
        """Say it, again under its key where no answer came, or once it was decided about what it waits for.

        Returns the thread that it is in, if known.
        """
        await asyncio.sleep(step.pause)
        ask = Ask(
            ask=step.ask,
            account=talk.account,
            agent=step.agent,
            text=step.text,
            leaves=step.leave_after is not None,
            cancels=step.cancel_after is not None and step.form != "json",
            limited=talk.rush,
        )
        self.asks.append(ask)
        give_up = self._clock.now() + _TRY_SECONDS
        gateway, leaves, found = step.gateway, step.leave_after, None
        while True:
            exchange = Exchange(
                ask=step.ask,
                account=talk.account,
                form=step.form,
                gateway=f"gateway-{gateway + 1}",
                began=self._clock.now(),
                conversation=conversation,
                keyed=step.keyed,
            )
            await self._with_going(exchange, step, leaves)
            found = conversation_of(exchange) or found
            asked = list_pending_approvals(exchange)
            for approval_id in asked:
                await self.people.decide(talk.account, approval_id)
            again = bool(asked) or _is_to_be_repeated(exchange)
            if not step.keyed or not again or self._clock.now() > give_up:
                return found
            gateway, leaves = 1 - gateway, None
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _with_going(self, exchange: Exchange, step: Step, leaves: float | None) -> None:
        """Perform it, and go or cancel in the middle where that is planned."""
        answered = asyncio.Event()
        performing = asyncio.create_task(self._perform(exchange, step.agent, step.text, answered))
        waits = leaves if leaves is not None else step.cancel_after
        try:
            if waits is None:
                await performing
                return
            await asyncio.wait(
                [performing, waiting := asyncio.create_task(answered.wait())],
                timeout=None if exchange.form != "json" else waits,
                return_when=asyncio.FIRST_COMPLETED,
            )
            waiting.cancel()
            await asyncio.wait([performing], timeout=waits)
            if leaves is None:
                await self._cancel(exchange)
                await performing
        finally:
            performing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await performing

    async def _perform(
        self, exchange: Exchange, agent: str, text: str, answered: asyncio.Event | None = None
    ) -> None:
        self.exchanges.append(exchange)
        account = self._access[exchange.account]
        headers = {"X-Api-Key": account.api_key, "X-Agent-Id": account.agents[agent]}
        if exchange.form != "json":
            headers["X-Stream-Form"] = exchange.form[-1]
        if exchange.keyed:
            headers["Idempotency-Key"] = exchange.ask
        body: dict[str, object] = {"message": text}
        if exchange.conversation is not None:
            body["conversation_id"] = exchange.conversation
        asking: list[asyncio.Task[None]] = []

        def on_news() -> None:
            if answered is not None:
                answered.set()
            if not asking and _is_done(exchange):
                asking.append(asyncio.create_task(self._note_saved(exchange)))

        port = self._ports[int(exchange.gateway[-1]) - 1]
        try:
            await perform(exchange, port, headers, body, self._clock, on_news)
        finally:
            await asyncio.gather(*asking, return_exceptions=True)

    async def _note_saved(self, exchange: Exchange) -> None:
        exchange.saved_at_done = await self._tail.has_reply(exchange.headers.get("x-trace-id", ""))

    async def _cancel(self, exchange: Exchange) -> None:
        trace = exchange.headers.get("x-trace-id")
        if trace is not None and exchange.status == 200:
            key = self._access[exchange.account].api_key
            await call_gateway(self._ports[0], key, "POST", f"/v1/chat/{trace}/cancel")


def _is_done(exchange: Exchange) -> bool:
    if exchange.status != 200:
        return False
    return bool(exchange.body) if exchange.form == "json" else '"type":"done"' in exchange.body[-20000:]


def conversation_of(exchange: Exchange) -> str | None:
    """The thread that an answer names."""
    if exchange.status != 200 or not exchange.body:
        return None
    text = (
        exchange.body if exchange.form == "json" else exchange.body.partition("\n")[0].removeprefix("data: ")
    )
    with contextlib.suppress(msgspec.DecodeError):
        found = msgspec.json.decode(text, type=dict[str, object]).get("conversation_id")
        return str(found) if found else None
    return None


def _is_to_be_repeated(exchange: Exchange) -> bool:
    """Whether a client whose request has a key cannot know what came of it, or was refused for now."""
    if exchange.status is None or exchange.end != "eof":
        return True
    if exchange.status != 200:
        return exchange.status in _REFUSED_FOR_NOW or '"conversation_busy"' in exchange.body
    if exchange.form == "json":
        return False
    return '"type":"done"' not in exchange.body and (
        '"type":"error"' not in exchange.body or '"server_shutdown"' in exchange.body
    )
