"""What a run will do, as data: a pure function of the seed."""

import random
import uuid
from collections.abc import Collection, Mapping
from typing import Literal

import msgspec

Chance = random.Random
Deck = list[tuple[str, str]]
"""Kinds of fault with their targets."""
Form = Literal["json", "form1", "form2"]

ACCOUNTS = ("A", "B")
LIMITED = "L"
"""The account whose plan has limits; its clients send more than that at once."""
RATE_PER_MINUTE = 10
CONCURRENT_RUNS = 3
_RUSH = 18
_RUSH_SECONDS = 3.0

MODELS = {
    "short": "demo-echo?delay_ms=15&repeat=2",
    "long": "demo-echo?delay_ms=25&repeat=12",
    "tools": "demo-echo?tool=look,mark,note&delay_ms=15&repeat=2",
    "asking": "demo-echo?tool=look,note&delay_ms=15&repeat=2",
    "overloaded": "demo-echo?fail=529&times=1&retry_after=1&delay_ms=15",
}
"""The agents of each account, by the name of what they are like.

At `asking` a person has to allow each call of what writes.
"""
MIX = {"short": 4, "long": 2, "tools": 4, "overloaded": 1, "asking": 3}
"""How often each agent is asked, in relation to the others."""
TOOLS = {"look": {"readOnlyHint": True}, "mark": {"idempotentHint": True}, "note": {"readOnlyHint": False}}
WRITES = "note"
"""The one that may not run twice."""
_WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "kelp")

SERVICES = (
    *("gateway-1", "gateway-2", "orchestrator-1", "orchestrator-2"),
    *("tool-runner-1", "tool-runner-2", "projector-1"),
)
SERVERS = ("nats", "postgres", "valkey")
LINKS = (
    *(f"{service}>{server}" for service in SERVICES for server in ("nats", "postgres")),
    *("gateway-1>valkey", "gateway-2>valkey", "orchestrator-1>model", "orchestrator-2>model"),
    *("tool-runner>tools", "client>gateway-1", "client>gateway-2"),
)
LINK_FAULTS = ("refuse", "freeze", "reset", "one_way", "delay")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a talk, `pause` seconds after the end of the one before."""

    ask: str
    agent: str
    text: str
    form: Form
    gateway: int
    pause: float
    keyed: bool
    leave_after: float | None = None
    """Seconds from the answer's first byte to the client's going; a key is then used again."""
    cancel_after: float | None = None


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: its steps one after the other. In a rush each goes to a thread of its own."""

    at: float
    account: str
    steps: tuple[Step, ...]
    rush: bool = False


class Blow(msgspec.Struct, frozen=True, kw_only=True):
    """A fault to come: `seconds` until it is healed."""

    at: float
    kind: str
    target: str
    seconds: float


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The whole run."""

    seed: int
    seconds: float
    talks: tuple[Talk, ...]
    blows: tuple[Blow, ...]


def make_plan(
    seed: int,
    requests: int,
    seconds: float,
    every: float = 2.0,
    longest: float = 12.0,
    *,
    only: Collection[str] = (),
) -> Plan:
    """About `requests` messages spread over `seconds`, a fault every `every` seconds of `longest` at most.

    Faults are of the kinds `only` (`kill`, or of one target: `kill:postgres`), or of all.
    """
    chance = random.Random(seed)
    talks: list[Talk] = []
    while sum(len(talk.steps) for talk in talks) < requests:
        if len(talks) % 25 == 0:
            talks.append(make_rush(chance, chance.uniform(0, seconds * 0.9) if talks else 0.0))
        else:
            talks.append(make_talk(chance, seconds, MIX))
    blows = _blows(random.Random(seed + 1), seconds, every, longest, only)
    return Plan(seed=seed, seconds=seconds, talks=tuple(sorted(talks, key=lambda each: each.at)), blows=blows)


def make_talk(chance: Chance, seconds: float, mix: Mapping[str, int] = MIX) -> Talk:
    """At any time before nine tenths of `seconds`, with an agent of the mix."""
    agent = chance.choices(tuple(mix), weights=tuple(mix.values()))[0]
    account = chance.choice(ACCOUNTS)
    steps = tuple(make_step(chance, account, agent) for _ in range(chance.choice((1, 1, 2, 3, 5))))
    return Talk(at=chance.uniform(0, seconds * 0.9), account=account, steps=steps)


def make_rush(chance: Chance, at: float) -> Talk:
    """More messages at once than the limited account may send."""
    steps = tuple(make_step(chance, LIMITED, "short", rush=True) for _ in range(_RUSH))
    return Talk(at=at, account=LIMITED, steps=steps, rush=True)


def make_step(chance: Chance, account: str, agent: str, *, rush: bool = False) -> Step:
    """A message of some words, to an agent of the account."""
    ask = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    words = " ".join(chance.choice(_WORDS) for _ in range(chance.randint(2, 8)))
    going = chance.random()
    return Step(
        ask=ask,
        agent=agent,
        text=f"[[u:{ask}]] [[acct:{account}]] {words}",
        form="json" if rush else chance.choice(("json", "form1", "form1", "form2")),
        gateway=chance.randrange(2),
        pause=chance.uniform(0.0, _RUSH_SECONDS if rush else 0.6),
        keyed=not rush and chance.random() < 0.75,
        leave_after=chance.uniform(0.0, 0.3) if not rush and going < 0.15 else None,
        cancel_after=chance.uniform(0.0, 0.3) if not rush and 0.15 <= going < 0.22 else None,
    )


def _blows(
    chance: Chance, seconds: float, every: float, longest: float, only: Collection[str]
) -> tuple[Blow, ...]:
    """All that there is to hit comes once, shuffled, before anything comes again."""
    blows: list[Blow] = []
    deck: Deck = []
    at = 1.0
    while at < seconds:
        if not deck:
            deck = _deck(chance, only)
        kind, target = deck.pop()
        lasts = 0.0 if kind in ("reset", "flush", "eat") else chance.uniform(0.2, min(longest, 3.0))
        if kind in ("stop", "freeze", "one_way") and chance.random() < 0.3:
            lasts = chance.uniform(1.0, longest)
        blows.append(Blow(at=round(at, 3), kind=kind, target=target, seconds=round(lasts, 3)))
        at += chance.uniform(0.5 * every, 1.5 * every)
    return tuple(blows)


def _deck(chance: Chance, only: Collection[str]) -> Deck:
    """Each kind of fault about as often as the others, whatever the number of its targets."""
    whole = [
        *(("kill", service) for service in (*SERVICES, *SERVERS)),
        *(("stop", service) for service in (*SERVICES, *SERVERS)),
        *(("wipe", "nats"), ("wipe", "nats"), ("flush", "valkey")),
        *(("term", chance.choice(SERVICES)) for _ in range(2)),
        *((chance.choice(LINK_FAULTS), link) for link in chance.sample(LINKS, 10)),
        *(("eat", f"orchestrator-{number}>postgres") for number in (1, 2)),
    ]
    whole = [each for each in whole if not only or each[0] in only or ":".join(each) in only]
    chance.shuffle(whole)
    return whole
