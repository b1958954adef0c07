"""Judges that are asked by the bus: each reply is paid for once, and the budget stops them too."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bus import Bus
from contracts import subjects, wire
from contracts.replay_messages import WhatIfAnswered
from contracts.values import Usage
from evals.answer_cache import CacheFolder
from evals.errors import UnfitSuite
from evals.judging.asked_judge import asked_of, judge_of
from evals.judging.model_judges import Ask, CouldNotJudge, NotAsked, Unfit
from evals.spending import Spending
from evals.suite import JudgeModel, Suite, SuiteBudget
from experiments.prices import Price, Prices
from experiments.reruns import Reruns
from tests.evals.made_cases import made_suite

_FULFILLED = '{"reason": "why", "fulfilled": true}'
_ANSWERED = WhatIfAnswered(
    outcome="completed",
    model="demo-shop-1",
    content=_FULFILLED,
    usage=Usage(input_tokens=80, output_tokens=20),
    unrecorded="stop",
)
_PRICES = Prices(models={"demo-shop-1": Price(input=1.0, output=2.0)})


class Judge:
    """An orchestrator, as far as the bus sees it."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.asked = 0
        self.answer: Callable[[], WhatIfAnswered] = lambda: _ANSWERED

    async def handle(self, data: bytes) -> bytes:
        self.asked += 1
        return wire.encode(self.answer())

    def ask(self, suite: Suite, spending: Spending, model: str | None = None, *, keeps: bool = True) -> Ask:
        named = replace(suite, settings=replace(suite.settings, judge=JudgeModel(model=model)))
        judge = judge_of(named, suite.agent)
        return asked_of(judge, Reruns(self.bus), spending, CacheFolder(suite.folder, keeps=keeps))


@pytest.fixture
async def judge(nats_url: str) -> AsyncIterator[Judge]:
    async with Bus.connect(nats_url, name="tests") as bus:
        judge = Judge(bus)
        async with bus.rpc.serving(subjects.WHAT_IF, "orchestrator", judge.handle):
            yield judge


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return made_suite(tmp_path / "suite")


async def test_a_judges_reply_is_paid_for_once_by_what_was_asked(judge: Judge, suite: Suite) -> None:
    spending = Spending(SuiteBudget(), _PRICES)
    ask = judge.ask(suite, spending)
    assert await ask("You judge.", "{}", {}) == _FULFILLED
    assert (judge.asked, spending.tokens) == (1, 100)
    again = judge.ask(suite, spending)
    assert await again("You judge.", "{}", {}) == _FULFILLED
    assert (judge.asked, spending.tokens) == (1, 100)
    differing: list[tuple[Ask, tuple[str, str, dict[str, Any]]]] = [
        (again, ("You judge strictly.", "{}", {})),
        (again, ("You judge.", "[]", {})),
        (again, ("You judge.", "{}", {"type": "object"})),
        (judge.ask(suite, spending, "other"), ("You judge.", "{}", {})),
        (judge.ask(suite, spending, keeps=False), ("You judge.", "{}", {})),
    ]
    for number, (asking, question) in enumerate(differing, 2):
        await asking(*question)
        assert judge.asked == number


@pytest.mark.parametrize(
    ("code", "raised"),
    [("output_invalid", Unfit), ("provider_error", CouldNotJudge)],
    ids=["nonsense", "down"],
)
async def test_no_reply_is_paid_for_and_not_kept(
    judge: Judge, suite: Suite, code: str, raised: type[Exception]
) -> None:
    spending = Spending(SuiteBudget(), _PRICES)
    ask = judge.ask(suite, spending)
    judge.answer = lambda: replace(_ANSWERED, outcome="failed", code=code, detail="no")
    with pytest.raises(CouldNotJudge) as failed:
        await ask("You judge.", "{}", {})
    assert type(failed.value) is raised
    assert spending.tokens == 100
    judge.answer = lambda: _ANSWERED
    assert await ask("You judge.", "{}", {}) == _FULFILLED
    assert judge.asked == 2


async def test_a_spent_budget_stops_judges_too_also_those_under_way_count(judge: Judge, suite: Suite) -> None:
    spending = Spending(SuiteBudget(tokens=250), _PRICES)
    ask = judge.ask(suite, spending)
    done = await asyncio.gather(
        *(ask("You judge.", str(number), {}) for number in range(20)), return_exceptions=True
    )
    assert sorted({type(each) for each in done}, key=str) == [NotAsked, str]
    assert judge.asked == done.count(_FULFILLED) == 3
    with pytest.raises(NotAsked, match="the budget of the run is spent"):
        await ask("You judge.", "20", {})
    assert await ask("You judge.", "0", {}) == _FULFILLED  # what was paid for needs no budget
    assert spending.tokens == 300


async def test_a_judge_without_a_price_is_no_way_round_a_budget(judge: Judge, suite: Suite) -> None:
    ask = judge.ask(suite, Spending(SuiteBudget(money=5.0), _PRICES), "other")
    with pytest.raises(UnfitSuite, match=r"budget\.money needs a price table that has other"):
        await ask("You judge.", "{}", {})
    assert judge.asked == 0
