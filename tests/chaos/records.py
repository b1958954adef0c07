"""What a run records. Times are seconds since its start, on the rig's monotonic clock, unless they say else.

A history is plain data, so that one can be saved, read back, changed by hand and judged again.
"""

import time
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec


class Clock:
    """Monotonic; times of other processes' wall clocks are translated."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """It is 0 now."""
        self._began = time.monotonic()
        self._began_at = time.time()

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def of(self, at: str) -> float:
        """A time in ISO 8601 on this clock."""
        return round(datetime.fromisoformat(at).timestamp() - self._began_at, 4)


Item = tuple[str, str]
"""A block of a model request: its kind (user, assistant, call, result) and its text."""

End = Literal["eof", "reset", "refused", "left", "timeout"]
"""How an exchange ended for its client; `left`: the client went on purpose."""


class Exchange(msgspec.Struct, kw_only=True):
    """One HTTP request of a client, and every byte of its answer. `ask` is the uuid of the message."""

    ask: str
    account: str
    form: Literal["json", "form1", "form2"]
    gateway: str
    began: float
    ended: float = 0.0
    conversation: str | None = None
    """The thread that it was sent to; None starts one."""
    keyed: bool = False
    probe: bool = False
    """Sent after the last fault was healed."""
    status: int | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    body: str = ""
    arrivals: list[tuple[float, int]] = msgspec.field(default_factory=list)
    """When how many characters of the body had arrived."""
    end: End = "timeout"
    saved_at_done: bool | None = None
    """Whether the reply was committed when `done` (or the JSON reply) arrived; None: Postgres did not say."""

    @property
    def accepted(self) -> bool:
        """Whether its client may take the message for saved."""
        return self.status == 200


class Ask(msgspec.Struct, kw_only=True):
    """A message as it was planned: what was said by whom, and what its client meant to do."""

    ask: str
    account: str
    agent: str
    text: str
    leaves: bool = False
    cancels: bool = False
    limited: bool = False


class ModelCall(msgspec.Struct, kw_only=True):
    """One request that reached the model. `account` is that of the provider key."""

    ask: str
    account: str
    at: float
    items: list[Item]
    system: str
    tools: bool | None = None
    """Whether tools were offered; None in a history of before that was recorded."""
    saved: bool | None = None
    """Whether the user's message was committed when it arrived; None: Postgres did not say."""
    ended: float = 0.0
    status: int = 0
    text: str = ""
    tokens: int | None = None
    """Input and output tokens, where the whole reply was delivered."""
    whole: bool = False


class ToolRun(msgspec.Struct, kw_only=True):
    """One execution of a tool. `account` is that of the server's own credentials."""

    tool: str
    ask: str
    account: str
    at: float
    input: str
    ended: float = 0.0
    answered: bool = False


class Fault(msgspec.Struct, kw_only=True):
    """A fault that was injected. `until` is when it was healed."""

    kind: str
    target: str
    at: float
    until: float = 0.0
    hit: bool = False
    """Whether it reached a live process or an open connection."""
    ready: float | None = None
    """When the target was ready again."""

    @property
    def component(self) -> str:
        """`orchestrator` for orchestrator-2 and for each link of it."""
        return self.target.partition(">")[0].rstrip("-0123456789")


class Event(msgspec.Struct, kw_only=True):
    """A row of the event store, its state as JSON. `at` is on the run's clock, from the event's own time."""

    position: int
    conversation: str
    version: int
    kind: str
    at: float
    state: dict[str, Any]

    @property
    def trace(self) -> str:
        return str(self.state["trace_id"])


class Final(msgspec.Struct, kw_only=True):
    """What was found when all was healed and quiet."""

    healed: float = 0.0
    quiet: bool = False
    unsettled: list[str] = msgspec.field(default_factory=list)
    """What was not at rest in time: open runs, pending messages, slots that are held, lagging projections."""
    tailed: list[int] = msgspec.field(default_factory=list)
    """Positions in the order in which a reader that tailed the log during the run saw them."""
    replay: dict[str, bool] = msgspec.field(default_factory=dict)
    """For each proof of the read models whether it held."""
    leaks: list[str] = msgspec.field(default_factory=list)
    """Where a secret, or a message outside the event store, was found."""
    searched: int = 0


class History(msgspec.Struct, kw_only=True):
    """All of a run. `accounts` maps the rig's names of accounts to their ids."""

    seed: int
    commit: str = ""
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    accounts: dict[str, str] = msgspec.field(default_factory=dict)
    rate_per_minute: int = 0
    """Of the account that has limits."""
    seconds: float = 0.0
    asks: list[Ask] = msgspec.field(default_factory=list)
    exchanges: list[Exchange] = msgspec.field(default_factory=list)
    model: list[ModelCall] = msgspec.field(default_factory=list)
    tools: list[ToolRun] = msgspec.field(default_factory=list)
    faults: list[Fault] = msgspec.field(default_factory=list)
    events: list[Event] = msgspec.field(default_factory=list)
    lost_conversations: list[str] = msgspec.field(default_factory=list)
    """Conversations that `agentchat repair` listed after an asynchronous standby was promoted."""
    unpublished_asks: list[str] = msgspec.field(default_factory=list)
    """Asks under way when such a primary was killed: `repair` lists no event that had not reached EVENTS."""
    final: Final = msgspec.field(default_factory=Final)

    def save(self, path: Path) -> None:
        path.write_bytes(msgspec.json.encode(self))


def load_history(path: Path) -> History:
    return msgspec.json.decode(path.read_bytes(), type=History)


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """An invariant that did not hold, of what (an ask, a trace, a conversation), and the evidence."""

    invariant: str
    of: str
    evidence: str
