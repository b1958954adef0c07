"""The scenarios that each subject is measured in, as data; `bench.measuring` runs them."""

import msgspec

from bench.protocol_requests import PROTOCOLS

SERVICE, SDK, AIOHTTP = "service", "sdk", "aiohttp"
ALL = (SERVICE, SDK, AIOHTTP)
SHORT = "lean?deltas=20"
TOOL = f"{SHORT}&tool=get_product"


class Chats(msgspec.Struct, frozen=True, kw_only=True):
    """`chats` in all, `at_once` of them concurrently; each after `history` messages, where given."""

    name: str
    chats: int
    at_once: int
    model: str = SHORT
    history: int | None = None
    subjects: tuple[str, ...] = ALL
    rounds: int = 3


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """Concurrent paced streams: a delta each `spacing_ms`. `memory`: it is read while they are open."""

    name: str
    streams: int
    deltas: int
    spacing_ms: int
    ramp: float = 1.0
    memory: bool = False
    clients: int = 1
    subjects: tuple[str, ...] = ALL
    rounds: int = 3

    @property
    def model(self) -> str:
        return f"lean?deltas={self.deltas}&delay_ms={self.spacing_ms}"

    @property
    def seconds(self) -> float:
        """What the provider needs for one of them."""
        return self.spacing_ms / 1000 * (self.deltas - 1)


Scenario = Chats | Streams

_HISTORIES = (0, 10, 200, 970, 1000, 5000)

FULL: tuple[Scenario, ...] = (
    Chats(name="1 at once", chats=150, at_once=1),
    Chats(name="8 at once", chats=400, at_once=8),
    Chats(name="32 at once", chats=800, at_once=32, rounds=4),
    Chats(name="128 at once", chats=800, at_once=128),
    Chats(name="tool call", chats=200, at_once=8, model=TOOL, subjects=(SERVICE,)),
    *(Chats(name=f"history {size}", chats=30, at_once=1, history=size, rounds=2) for size in _HISTORIES),
    Streams(name="50 long streams", streams=50, deltas=500, spacing_ms=10),
    Streams(name="200 long streams", streams=200, deltas=500, spacing_ms=10, memory=True, clients=2),
    Streams(
        name="1000 streams", streams=1000, deltas=200, spacing_ms=50, ramp=4, memory=True, clients=2, rounds=2
    ),
    Streams(
        name="5000 idle streams",
        streams=5000,
        deltas=7,
        spacing_ms=5000,
        ramp=20,
        memory=True,
        clients=2,
        subjects=(SERVICE,),
        rounds=1,
    ),
)
"""Some fifteen minutes."""

QUICK: tuple[Scenario, ...] = (
    Chats(name="1 at once", chats=60, at_once=1, rounds=2),
    Chats(name="32 at once", chats=300, at_once=32, rounds=2),
    Chats(name="tool call", chats=40, at_once=8, model=TOOL, subjects=(SERVICE,), rounds=1),
    *(Chats(name=f"history {size}", chats=20, at_once=1, history=size, rounds=1) for size in (0, 970)),
    Streams(name="50 long streams", streams=50, deltas=300, spacing_ms=10, memory=True, rounds=1),
)
"""Less than three minutes."""

_PROTOCOLS = tuple(PROTOCOLS)
BY_PROTOCOL: tuple[Scenario, ...] = (
    Chats(name="short, 32 at once", chats=400, at_once=32, subjects=_PROTOCOLS),
    Chats(
        name="long, 50 at once",
        chats=50,
        at_once=50,
        model="lean?deltas=500&delay_ms=10",
        subjects=_PROTOCOLS,
    ),
)
"""The service alone, by each protocol in turn: ten minutes."""


def models(scenarios: tuple[Scenario, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scenario.model for scenario in scenarios))
