"""What `make hostile` finds in its figures."""

import msgspec
import pytest

from tests.chaos.growth import Sample
from tests.chaos.hostile import LIVE, Cycle, Paced, Result, Sizes, fitting

pytestmark = pytest.mark.requirement("HOSTILE-CROWD")


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
