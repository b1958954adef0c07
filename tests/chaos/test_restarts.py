"""Which answers of a stopping service are harmless, and which its clients may not see."""

import msgspec
import pytest

from tests.chaos.records import Ask, Exchange, Fault, History
from tests.chaos.restarts import Restart, late_exits, seen_by_clients, too_few_streams

pytestmark = pytest.mark.requirement("DRAIN-LOAD")

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
    late, failed = (
        msgspec.structs.replace(fine, exit_seconds=10.2),
        msgspec.structs.replace(fine, code=1),
    )
    assert late_exits([fine, late, failed]) == [
        "gateway-1 ended with code 0 after 10.2 s",
        "gateway-1 ended with code 1 after 8.7 s",
    ]


def test_a_run_in_which_few_streams_were_open_does_not_count() -> None:
    restart = Restart(target="gateway-1", open_streams=99, exit_seconds=8.7, ready_seconds=2.0, code=0)
    assert too_few_streams([restart], 198) == []
    assert too_few_streams([restart], 200) == ["99 streams were open, 200 were to be"]
