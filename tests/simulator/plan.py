"""What happens in one simulated history: requests, and the faults that meet them. All of it out of a seed.

A plan is data, so that a failing one can be shrunk and run again; `simulate.run` adds nothing to it but
latencies, which come from its seed too.
"""

import random
from typing import Literal, get_args

import msgspec

from agentchat.contracts.values import OnBusy

Kind = Literal[
    "crash_before",
    "crash_after",
    "pause_before",
    "pause_after",
    "lose_request",
    "lose_reply",
    "slow",
    "killed",
    "stopped",
    "postgres_away",
    "nats_away",
    "nats_wiped",
    "nats_full",
    "postgres_cut",
    "nats_cut",
    "frame_lost",
    "frame_twice",
    "frame_late",
    "request_twice",
    "reply_breaks",
    "model_fails",
]
"""Those up to "slow" meet one call of a process, numbered by `at`; a frame fault meets the `at`-th frame of
all, `reply_breaks` the `at`-th model call of all, `model_fails` that and all later ones of the agent's own
model; the others begin at second `at`.
"""

AT_CALL: frozenset[Kind] = frozenset(
    {"crash_before", "crash_after", "pause_before", "pause_after", "lose_request", "lose_reply", "slow"}
)
AT_FRAME: frozenset[Kind] = frozenset({"frame_lost", "frame_twice", "frame_late"})
AT_MODEL_CALL: frozenset[Kind] = frozenset({"reply_breaks", "model_fails"})

GATEWAYS = ("gateway-1", "gateway-2")
ORCHESTRATORS = ("orchestrator-1", "orchestrator-2")
TOOL_RUNNERS = ("tool-runner-1", "tool-runner-2")
PROJECTOR = "projector"
PROCESSES = (*GATEWAYS, *ORCHESTRATORS, *TOOL_RUNNERS, PROJECTOR)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a caller, and what the model makes of it.

    `thread`: the conversation, by number. `rounds`: the pieces of text of each model call. `calls`: the tools
    that each round but the last asks for. `cancel_at`: seconds after `at`. `on_busy`: as in ChatRequested.
    """

    number: int
    at: float
    thread: int
    gateway: int
    streaming: bool
    rounds: tuple[tuple[str, ...], ...]
    calls: tuple[tuple[str, ...], ...]
    cancel_at: float | None = None
    on_busy: OnBusy | None = None

    @property
    def key(self) -> str:
        """The word by which the model knows what it is asked."""
        return f"q{self.number}"

    @property
    def content(self) -> str:
        """What the reply must be, if it is not cut short."""
        return "".join("".join(pieces) for pieces in self.rounds)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `process` is "" where it meets none alone; `seconds` is how long it lasts."""

    kind: Kind
    at: float
    process: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        place = f"call {int(self.at)}" if self.kind in AT_CALL else f"{self.at:g}"
        return f"{self.kind} {self.process} at {place} for {self.seconds:g} s".replace("  ", " ")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One history. `pace`: seconds between two pieces of text, at most.

    `prefill`: the model goes on from a partial message; else it is told to. `keep_runs`: so many earlier runs
    stay as they are where all others are summarised before each first call; None: no run ever is. `fallback`:
    the agent has another model.
    """

    seed: int
    pace: float = 0.05
    requests: tuple[Request, ...]
    faults: tuple[Fault, ...]
    prefill: bool = True
    max_tool_rounds: int = 8
    on_interruption: Literal["continue", "fail"] = "continue"
    keep_runs: int | None = None
    fallback: bool = False


def plan_of(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    count = rng.choice((1, 1, 1, 2, 2, 3))
    requests = tuple(_request(rng, number) for number in range(count))
    moment = rng.random() * 4.0 if rng.random() < 0.5 else None
    faults = tuple(_fault(rng, moment) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))))
    plan = Plan(
        seed=seed,
        requests=requests,
        faults=faults,
        pace=rng.choice((0.03, 0.1, 0.3, 0.3, 0.3, 3.0)),
        prefill=rng.random() < 0.7,
        max_tool_rounds=1 if rng.random() < 0.1 else 8,
        on_interruption="fail" if rng.random() < 0.1 else "continue",
        keep_runs=rng.choice((None, None, 0, 1)),
    )
    plan = _with_a_full_disk(rng, plan) if rng.random() < 0.1 else plan
    plan = _with_a_failing_model(rng, plan) if rng.random() < 0.2 else plan
    return _with_policies(rng, plan) if rng.random() < 0.3 else plan


def _with_a_full_disk(rng: random.Random, plan: Plan) -> Plan:
    """Behind all else, so that the plans of seeds without one are what they were."""
    full = Fault(kind="nats_full", at=round(rng.random() * 5.0, 3), seconds=_seconds(rng, "nats_full"))
    return msgspec.structs.replace(plan, faults=(*plan.faults, full))


def _with_a_failing_model(rng: random.Random, plan: Plan) -> Plan:
    fails = Fault(kind="model_fails", at=float(rng.choice((1, 1, 2, 3))), seconds=rng.randint(0, 3))
    return msgspec.structs.replace(plan, faults=(*plan.faults, fails), fallback=rng.random() < 0.9)


def _with_policies(rng: random.Random, plan: Plan) -> Plan:
    """Messages to one busy thread. Its model speaks slowly, so that they meet a run under way."""
    first = msgspec.structs.replace(_request(rng, 0), thread=0, at=0.0)
    later = (_request(rng, number) for number in range(1, rng.choice((2, 3))))
    requests = (
        first,
        *(msgspec.structs.replace(each, thread=0, on_busy=rng.choice(get_args(OnBusy))) for each in later),
    )
    return msgspec.structs.replace(plan, requests=requests, pace=rng.choice((0.3, 1.0, 3.0)))


def _request(rng: random.Random, number: int) -> Request:
    rounds = rng.choice((1, 1, 2, 2, 3))
    texts = tuple(_pieces(rng, number, each, rounds) for each in range(rounds))
    calls = tuple(tuple(rng.choices(("read", "write"), k=rng.choice((1, 1, 2)))) for _ in range(rounds - 1))
    return Request(
        number=number,
        at=round(rng.random() * 2.0, 3),
        thread=0 if rng.random() < 0.7 else number,
        gateway=rng.randrange(len(GATEWAYS)),
        streaming=rng.random() < 0.8,
        rounds=texts,
        calls=calls,
        cancel_at=round(rng.random() * 3.0, 3) if rng.random() < 0.08 else None,
    )


def _pieces(rng: random.Random, number: int, part: int, parts: int) -> tuple[str, ...]:
    """Words that no other round has; some end in white space. A round that asks for tools may have none."""
    least = 0 if part < parts - 1 else 1
    count = rng.randint(least, 4)
    end = rng.choice(("", " ", "\n"))
    return tuple(f"r{number}.{part}.{piece}{end if piece % 2 else ' '}" for piece in range(count))


def _fault(rng: random.Random, moment: float | None) -> Fault:
    """Faults of one plan come close together, or anywhere. Most calls that matter come soon."""
    kind: Kind = rng.choice(_KINDS)
    if kind in AT_CALL:
        process = rng.choice(_CALLERS)
        at = float(1 + int(rng.random() ** 2 * (60 if process.startswith("o") else 20)))
        return Fault(kind=kind, process=process, at=at, seconds=_seconds(rng, kind))
    if kind in AT_FRAME:
        return Fault(kind=kind, at=float(rng.randint(1, 30)), seconds=_seconds(rng, kind))
    if kind == "reply_breaks":
        return Fault(kind=kind, at=float(rng.randint(1, 6)), seconds=rng.randint(0, 3))
    process = rng.choice(_CALLERS) if kind in ("killed", "stopped", "postgres_cut", "nats_cut") else ""
    at = rng.random() * 5.0 if moment is None else moment + rng.random() * 0.5
    return Fault(kind=kind, process=process, at=round(at, 3), seconds=_seconds(rng, kind))


def _seconds(rng: random.Random, kind: Kind) -> float:
    low, high = _LASTING.get(kind, (0.0, 0.0))
    return round(low + rng.random() * (high - low), 3)


_KINDS: tuple[Kind, ...] = (
    *("crash_before", "crash_after") * 3,
    *("pause_before", "pause_after") * 2,
    *("lose_request", "lose_reply", "slow") * 2,
    *("killed", "killed", "stopped", "postgres_away", "nats_away", "nats_wiped"),
    *("postgres_cut", "nats_cut"),
    *("frame_lost", "frame_twice", "frame_late", "request_twice", "reply_breaks"),
)
_CALLERS = (*ORCHESTRATORS * 3, *TOOL_RUNNERS, *GATEWAYS, PROJECTOR)
_LASTING: dict[Kind, tuple[float, float]] = {
    "crash_before": (0.3, 3.0),  # until it is started again
    "crash_after": (0.3, 3.0),
    "pause_before": (0.5, 20.0),
    "pause_after": (0.5, 20.0),
    "slow": (0.2, 4.0),
    "killed": (0.3, 3.0),
    "stopped": (0.3, 3.0),
    "postgres_away": (0.2, 15.0),
    "nats_away": (0.2, 15.0),
    "nats_wiped": (0.2, 5.0),
    "nats_full": (0.5, 12.0),  # until it is killed, and has room
    "postgres_cut": (0.5, 20.0),
    "nats_cut": (0.5, 20.0),
    "frame_late": (0.05, 3.0),
}
