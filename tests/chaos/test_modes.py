"""What the modes of the rig find in their figures."""

import msgspec
import pytest

from ops.replay.lost_events import LostEvents
from tests.chaos.failover import loss_of
from tests.chaos.growth import Sample, growths, slope
from tests.chaos.hostile import LIVE, Cycle, Paced, Result, Sizes, fitting
from tests.chaos.records import Ask, Exchange, Fault, History, ToolRun
from tests.chaos.restarts import Restart, late_exits, seen_by_clients, too_few_streams
from tests.chaos.single import Measured

STOP = Fault(kind="term", target="gateway-1", at=100.0, until=108.5, ready=110.0, hit=True)
DELTA = 'data: {"type":"meta"}\n\ndata: {"type":"delta","content":"x"}\n\n'
SHUTDOWN = DELTA + 'data: {"type":"error","code":"server_shutdown"}\n\n'
STREAM = Exchange(
    ask="a", account="A", form="form1", gateway="gateway-1", began=99.0, ended=108.1, status=200, end="eof"
)


def _outcomes(exchange: Exchange, *, ask: Ask | None = None) -> tuple[list[str], int]:
    history = History(seed=1, exchanges=[exchange], faults=[STOP], asks=[ask] if ask else [])
    seen = seen_by_clients(history)
    return list(seen.outcomes), len(seen.errors)


def _with(**changes: object) -> Exchange:
    return msgspec.structs.replace(STREAM, **changes)


def test_a_stream_that_was_held_for_8_s_may_be_cut_off_and_none_before() -> None:
    assert _outcomes(_with(body=SHUTDOWN)) == (["cut off 8 s after the signal"], 0)
    assert _outcomes(_with(body=SHUTDOWN, ended=106.0)) == (["server_shutdown"], 1)
    assert _outcomes(_with(body=SHUTDOWN, gateway="gateway-2")) == (["server_shutdown"], 1)


def test_a_gateway_that_stops_may_refuse_what_comes_later_but_owes_an_answer_to_what_came_before() -> None:
    nothing = _with(status=None, end="reset", ended=100.2)
    assert _outcomes(msgspec.structs.replace(nothing, began=100.1)) == (["refused by a stopped gateway"], 0)
    assert _outcomes(nothing) == (["no answer (reset)"], 1)
    refused = _with(status=503, body='{"code":"server_shutdown"}', began=100.1, ended=100.2)
    assert _outcomes(refused) == (["turned away by a stopping gateway"], 0)
    assert _outcomes(msgspec.structs.replace(refused, began=98.0)) == (["server_shutdown"], 1)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"body": DELTA}, "delta"),
        ({"body": DELTA, "end": "reset"}, "broken off (reset)"),
        ({"body": SHUTDOWN.replace("server_shutdown", "generation_interrupted")}, "generation_interrupted"),
        ({"form": "json", "status": 503, "body": '{"code":"overloaded"}'}, "overloaded"),
        ({"form": "json", "status": 429, "body": '{"code":"rate_limited"}'}, "rate_limited"),
        ({"form": "json", "body": '{"mess'}, "status 200 without JSON"),
    ],
)
def test_every_other_end_is_an_error(change: dict[str, object], outcome: str) -> None:
    assert _outcomes(_with(**change)) == ([outcome], 1)


def test_what_a_client_asked_for_is_no_error() -> None:
    done = DELTA + 'data: {"type":"done"}\n\n'
    cancelled = DELTA + 'data: {"type":"error","code":"cancelled"}\n\n'
    refused = _with(form="json", status=429, body='{"code":"rate_limited"}')
    asked = Ask(ask="a", account="A", agent="slow", text="x")
    assert _outcomes(_with(body=done)) == (["done"], 0)
    assert _outcomes(_with(body=cancelled), ask=asked) == (["cancelled"], 1)
    assert _outcomes(_with(body=cancelled), ask=msgspec.structs.replace(asked, cancels=True))[1] == 0
    assert _outcomes(refused, ask=msgspec.structs.replace(asked, limited=True))[1] == 0


def test_an_exit_after_10_s_or_with_an_error_is_found() -> None:
    fine = Restart(target="gateway-1", open_streams=9, exit_seconds=8.7, ready_seconds=2.0, code=0)
    late, failed = (msgspec.structs.replace(fine, exit_seconds=10.2), msgspec.structs.replace(fine, code=1))
    assert late_exits([fine, late, failed]) == [
        "gateway-1 ended with code 0 after 10.2 s",
        "gateway-1 ended with code 1 after 8.7 s",
    ]


def test_a_run_in_which_few_streams_were_open_does_not_count() -> None:
    restart = Restart(target="gateway-1", open_streams=99, exit_seconds=8.7, ready_seconds=2.0, code=0)
    assert too_few_streams([restart], 198) == []
    assert too_few_streams([restart], 200) == ["99 streams were open, 200 were to be"]


def _paced(p99: float, lost: int = 0) -> Paced:
    return Paced(p50=1.0, p99=p99, worst=50.0, lost=lost)


def _gateway(**changes: float) -> list[Sample]:
    gateway = Sample(name="gateway-1", requests=0, mib=100.0, files=40, sockets=30, tasks=20)
    nats = Sample(name="nats clients", requests=0, subscriptions=150)
    return [msgspec.structs.replace(gateway, **changes), nats]


def _cycle(p99: float = 12.0, lost: int = 0, there: int = 7000, after: list[Sample] | None = None) -> Cycle:
    nats = Sample(name="nats clients", requests=0, subscriptions=1250)
    hostile = [*_gateway(sockets=30 + LIVE + there)[:1], nats]
    return Cycle(
        with_readers=_paced(10.0),
        with_hostile=_paced(p99, lost),
        samples={"with hostile": hostile, "after": after or _gateway()},
    )


def _result(*cycles: Cycle) -> Result:
    return Result(sizes=Sizes(), alone=_paced(5.0), at_first=_gateway(), cycles=[*cycles])


def test_deltas_that_are_lost_or_always_late_are_found() -> None:
    assert _result(_cycle(), _cycle(p99=20.0)).problems() == []
    late = "p99 of the delay is 1.30 times that next to readers who read, at best"
    assert _result(_cycle(p99=13.0), _cycle(p99=20.0)).problems() == [late]
    assert _result(_cycle(lost=3), _cycle()).problems() == ["3 deltas were lost"]


@pytest.mark.parametrize("kept", [{"mib": 110.1}, {"files": 45}, {"sockets": 35}, {"tasks": 25}])
def test_what_the_gateway_keeps_is_found(kept: dict[str, float]) -> None:
    assert len(_result(_cycle(), _cycle(after=_gateway(**kept))).problems()) == 1


def test_a_crowd_that_was_not_there_proves_nothing() -> None:
    assert _result(_cycle()).why_invalid() == []
    assert _result(_cycle(there=6299)).why_invalid() == ["6299 of 7000 connections were there"]


def test_the_crowd_is_scaled_to_the_files_that_may_be_open() -> None:
    assert fitting(Sizes(), 20_000) == Sizes()
    assert fitting(Sizes(), 4500) == Sizes(readers=500, heads=500, idle=2500)


def _samples(mib: float = 0.0, **each: int) -> list[Sample]:
    """Of 100,000 requests, in which `mib` and the counts grow with every 5,000."""
    return [
        Sample(
            name="gateway-1",
            requests=5000 * (number + 1),
            mib=100.0 + mib * number,
            **{name: 10 + count * number for name, count in each.items()},
        )
        for number in range(20)
    ]


def _problems(samples: list[Sample]) -> list[str]:
    return [problem for growth in growths(samples) for problem in growth.problems()]


def test_what_is_flat_is_no_problem() -> None:
    assert _problems(_samples()) == []
    assert _problems(_samples(mib=0.4)) == []


def test_memory_that_grows_with_the_requests_is_named() -> None:
    assert _problems(_samples(mib=0.6)) == ["gateway-1: memory grew by 1.20 MiB each 10,000 requests"]


@pytest.mark.parametrize("kind", ["files", "sockets", "tasks", "subscriptions"])
def test_what_is_left_behind_is_named(kind: str) -> None:
    assert _problems(_samples(**{kind: 1})) == [f"gateway-1: {kind} grew from 19 to 29"]


def test_a_pool_that_has_closed_what_it_opened_is_no_growth() -> None:
    samples = [
        Sample(name="orchestrator-1", requests=5000 * number, sockets=30 + 20 * (number % 3 == 1))
        for number in range(20)
    ]
    assert _problems(samples) == []


def test_what_fills_in_the_first_quarter_is_no_growth() -> None:
    early = [Sample(name="gateway-1", requests=5000 * number, mib=20.0 * number) for number in range(5)]
    assert _problems([*early, *_samples()[5:]]) == []


def test_a_slope_is_that_of_the_straight_line() -> None:
    assert slope([(0, 1), (10, 3), (20, 5)]) == pytest.approx(0.2)
    assert slope([(5, 1)]) == 0


@pytest.mark.parametrize(("slowest", "told"), [(3.0, "met"), (3.1, "MISSED")])
def test_a_goal_is_missed_when_the_slowest_of_thirty_took_too_long(slowest: float, told: str) -> None:
    measured = Measured(goal=3.0, seconds=[1.0] * 29 + [slowest])
    assert measured.met == (told == "met")
    assert measured.text("gateway") == f"gateway: p50 1.00, p99 {slowest:.2f} s of 30; goal 3 s {told}"


_META = 'data: {"type":"meta","conversation_id":"c"}\n\n'


@pytest.mark.parametrize(("listed", "found"), [("c", ["a"]), ("another", [])])
def test_a_lost_message_counts_as_found_where_the_lost_events_are_of_its_conversation(
    listed: str, found: list[str]
) -> None:
    ask = Ask(ask="a", account="A", agent="short", text="Hello")
    history = History(seed=1, asks=[ask], exchanges=[_with(body=_META, end="reset")])
    lost = LostEvents(events=1, first_position=7, last_position=7, conversations=[listed], deletions=[])
    loss = loss_of(history, [lost])
    assert (loss.lost, loss.found, loss.doubled) == (["a"], found, 0)
    assert any("I1 a: accepted" in each for each in loss.unexplained) is (not found)


@pytest.mark.parametrize(
    ("at", "held_back", "explained"),
    [(9.0, 1.5, True), (8.0, 1.5, False), (10.1, 1.5, False), (9.0, 0.0, False)],
)
def test_what_was_called_while_the_log_was_held_back_explains_all_but_a_lost_message(
    at: float, held_back: float, *, explained: bool
) -> None:
    asks = [Ask(ask=name, account="A", agent="short", text="Hello") for name in ("a", "b")]
    history = History(
        seed=1,
        asks=asks,
        exchanges=[_with(body=_META, end="reset")],
        tools=[ToolRun(tool="look", ask="b", account="A", at=at, ended=at + 0.1, input="{}")],
        faults=[Fault(kind="kill", target="postgres", at=10.0)],
    )
    loss = loss_of(history, [], held_back)
    assert (loss.lost, loss.found) == (["a"], [])
    assert any(each.startswith("I10 b: ") for each in loss.unexplained) is (not explained)
