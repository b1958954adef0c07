"""Cases of a suite done again: what is paid for once, what stops a run, and what each case came to."""

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus import Bus
from contracts import subjects, wire
from contracts.replay_messages import AskedTool, Divergence, WhatIf, WhatIfAnswered
from contracts.values import Usage
from evals.answer_cache import FOLDER, AnswerCache
from evals.case_file import DamagedCase, read_cases
from evals.cases import Case
from evals.errors import UnfitSuite
from evals.recorded_run import run_of_case
from evals.results import CaseResult
from evals.running import RunPlan, SuiteRun
from evals.spending import Spending
from evals.suite import Suite, SuiteBudget
from experiments.chosen_runs import estimate
from experiments.prices import Price, Prices
from experiments.reruns import Reruns
from tests.evals.made_cases import history_case, made_suite

_PRICES = Prices(models={"demo-shop-1": Price(input=1.0, output=2.0)}, currency="EUR")
_DONE = WhatIfAnswered(
    outcome="completed",
    model="demo-shop-1",
    content="Yes.",
    rounds=1,
    usage=Usage(input_tokens=80, output_tokens=20),
    unrecorded="stop",
)


class Worker:
    """An orchestrator as far as the bus sees it: `answer` says what becomes of a question."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.asked: list[WhatIf] = []
        self.answer: Callable[[WhatIf], WhatIfAnswered] = lambda _: _DONE
        self.news = asyncio.Event()
        self.slow = ""  # a case that is answered once it may `go_on`
        self.go_on = asyncio.Event()

    async def handle(self, data: bytes) -> bytes:
        question = wire.decode_message(WhatIf, data)
        self.asked.append(question)
        self.news.set()
        if question.trace_id == self.slow:
            await self.go_on.wait()
        return wire.encode(self.answer(question))


@pytest.fixture
async def worker(nats_url: str) -> AsyncIterator[Worker]:
    async with Bus.connect(nats_url, name="tests") as bus:
        worker = Worker(bus)
        async with bus.rpc.serving(subjects.WHAT_IF, "orchestrator", worker.handle):
            yield worker


def cases(count: int) -> Iterator[Case]:
    """Cases of one history, each with an id of its own."""
    case = history_case("shop")
    for number in range(count):
        trace_id = f"{number:032x}"
        events = tuple(
            msgspec.Raw(bytes(each).replace(case.id.encode(), trace_id.encode())) for each in case.events
        )
        origin = msgspec.structs.replace(case.origin, trace_id=trace_id)
        changes = {"id": trace_id, "origin": origin, "events": events, "sha256": f"{number:064x}"}
        yield msgspec.structs.replace(case, **changes)


def run_of(worker: Worker, suite: Suite, *, budget: SuiteBudget | None = None, **plan: Any) -> SuiteRun:
    agent = suite.agent
    fields: dict[str, Any] = {
        "agent": agent,
        "account_id": history_case("shop").origin.account_id,
        "concurrency": 2,
    } | plan
    cache = AnswerCache(suite.folder, agent, suite.settings.tools)
    spending = Spending(budget or SuiteBudget(), _PRICES)
    return SuiteRun(Reruns(worker.bus), RunPlan(**fields), cache, spending, None)


async def done(run: SuiteRun, given: Iterable[Case | DamagedCase]) -> list[CaseResult]:
    async with contextlib.aclosing(run.results(given)) as results:
        return [each async for each in results]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return made_suite(tmp_path / "suite")


async def test_what_was_paid_for_is_not_asked_again(worker: Worker, suite: Suite) -> None:
    first = await done(run_of(worker, suite, repeats=2), cases(3))
    assert [(each.outcome, each.cached) for each in first] == [("completed", False)] * 6
    assert [(each.case_id[-1], each.attempt) for each in first] == [
        (case, attempt) for case in "012" for attempt in (1, 2)
    ]
    run = run_of(worker, suite, repeats=3)
    again = await done(run, cases(3))
    assert len(worker.asked) == 9
    assert run.cached == 6
    paid = {(each.case_id, each.attempt): each.compared for each in first}
    assert {(each.case_id, each.attempt): each.compared for each in again if each.cached} == paid
    assert run.spending.tokens == 300
    other = msgspec.structs.replace(suite.agent.settings, system_prompt="Be brief.")
    changed = msgspec.structs.replace(suite, agent=msgspec.structs.replace(suite.agent, settings=other))
    assert [each.cached for each in await done(run_of(worker, changed), cases(1))] == [False]
    checked = [msgspec.structs.replace(each, checks={"contains": {}}, sha256="e" * 64) for each in cases(1)]
    assert [each.cached for each in await done(run_of(worker, suite), checked)] == [True]
    cached = suite.folder / FOLDER
    assert (cached / ".gitignore").read_text() == "*\n"
    for path in cached.rglob("*.json"):
        path.write_bytes(path.read_bytes()[:-1])
    assert [each.cached for each in await done(run_of(worker, suite), cases(1))] == [False]


async def test_a_run_that_was_stopped_goes_on_where_it_was(worker: Worker, suite: Suite) -> None:
    run = run_of(worker, suite)
    async with contextlib.aclosing(run.results(cases(10))) as results:
        kept = [await anext(results) for _ in range(4)]
    assert len(kept) == 4
    before = len(worker.asked)
    await done(run_of(worker, suite), cases(10))
    assert before <= 4 + 2
    assert len(worker.asked) <= 10 + 2, "those that were under way are asked once more, at most"


async def test_a_budget_is_passed_by_no_more_than_what_is_under_way(worker: Worker, suite: Suite) -> None:
    run = run_of(worker, suite, budget=SuiteBudget(tokens=500))
    results = await done(run, cases(10))
    assert run.outcomes["completed"] == len(worker.asked)
    assert 500 <= run.spending.tokens <= 500 + 100
    unrun = [each for each in results if each.outcome == "not_run"]
    assert len(unrun) == 10 - len(worker.asked)
    assert {each.detail for each in unrun} == {"the budget of the run is spent"}
    rich = run_of(worker, suite, budget=SuiteBudget(money=1.0))
    assert {each.outcome for each in await done(rich, cases(10))} == {"completed"}
    assert len(worker.asked) == 10
    assert rich.spending.money == pytest.approx((10 - run.outcomes["completed"]) * 120e-6)
    with pytest.raises(UnfitSuite, match="a price table that has other-1"):
        rich.spending.check("other-1")


async def test_a_provider_that_refuses_is_told_apart(worker: Worker, suite: Suite) -> None:
    refusals = iter(
        (
            {"code": "provider_error", "kind": "http_401"},
            {"code": "provider_overloaded", "transient": True},
            {"code": "provider_error", "kind": "http_400"},
            {"code": "output_invalid", "kind": "schema"},
        )
    )
    worker.answer = lambda _: msgspec.structs.replace(_DONE, outcome="failed", detail="No.", **next(refusals))
    results = await done(run_of(worker, suite, concurrency=1), cases(4))
    assert [each.outcome for each in results] == ["not_run", "not_run", "failed", "failed"]
    assert [each.compared is None for each in results] == [True, True, False, False]
    worker.answer = lambda _: _DONE
    again = await done(run_of(worker, suite, concurrency=1), cases(4))
    assert [(each.outcome, each.cached) for each in again] == [
        ("completed", False),
        ("completed", False),
        ("failed", True),
        ("failed", True),
    ]


async def test_what_every_case_would_meet_stops_the_run(worker: Worker, suite: Suite) -> None:
    worker.answer = lambda _: WhatIfAnswered(
        outcome="failed", code="provider_error", kind="no_key", detail="No key.", unrecorded="stop"
    )
    results = await done(run_of(worker, suite, concurrency=1), cases(5))
    assert [(each.outcome, each.detail) for each in results] == [("not_run", "No key.")] * 5
    assert len(worker.asked) == 1
    worker.answer = lambda _: WhatIfAnswered(outcome="completed", content="Yes.")
    (old,) = await done(run_of(worker, suite), cases(1))
    assert old.outcome == "not_run"
    assert "0.9.0" in (old.detail or "")


async def test_a_case_that_cannot_be_run_is_named(worker: Worker, suite: Suite, tmp_path: Path) -> None:
    made = made_suite(tmp_path / "damaged", cases(2))
    lines = made.cases.read_bytes().splitlines(keepends=True)
    made.cases.write_bytes(lines[0].replace(b"user", b"uzer", 1) + lines[1])
    foreign, large, ended, erased = cases(4)
    origin = msgspec.structs.replace(foreign.origin, account_id="account-9")
    given: list[Case | DamagedCase] = [
        *read_cases(made.cases),
        msgspec.structs.replace(foreign, origin=origin),
        msgspec.structs.replace(large, passages={"p": base64.b64encode(os.urandom(9_000_000)).decode()}),
        msgspec.structs.replace(ended, events=ended.events[:-1], sha256="f" * 64),
        erased,
    ]

    async def is_erased(case: Case) -> bool:
        return case.id == erased.id

    run = SuiteRun(
        Reruns(worker.bus),
        RunPlan(agent=suite.agent, account_id=foreign.origin.account_id, concurrency=1),
        AnswerCache(suite.folder, suite.agent, suite.settings.tools),
        Spending(SuiteBudget(), _PRICES),
        is_erased,
    )
    results = await done(run, given)
    assert [each.outcome for each in results] == [
        *("damaged", "completed", "damaged", "not_run", "damaged", "erased"),
    ]
    details = [each.detail or "" for each in results]
    for place, words in ((0, "do not fit"), (2, "account-9"), (3, "the bus carries"), (4, "no such run")):
        assert words in details[place]
    assert len(worker.asked) == 1


async def test_a_divergence_has_its_place(worker: Worker, suite: Suite) -> None:
    asked = AskedTool(round=2, name="get_order", input={"id": "A-1"}, missed=True)
    near = AskedTool(round=1, name="get_order", input={"id": "A-2"})
    played = AskedTool(round=1, name="track", input={}, simulated=True)
    worker.answer = lambda _: msgspec.structs.replace(
        _DONE,
        outcome="failed",
        code="diverged",
        calls=(played, asked),
        diverged=Divergence(call=asked, nearest=near),
    )
    (result,) = await done(run_of(worker, suite), cases(1))
    assert result.outcome == "diverged"
    assert result.diverged_at == (
        'round 2: get_order {"id":"A-1"}; recorded in round 1: get_order {"id":"A-2"}'
    )
    assert result.simulated == ("track {}",)
    assert result.compared is not None
    assert result.compared.missed == ('get_order {"id":"A-1"}',)


async def test_results_come_in_order_with_few_cases_in_memory(worker: Worker, suite: Suite) -> None:
    drawn = 0

    def drawing() -> Iterator[Case]:
        nonlocal drawn
        for case in cases(100):
            drawn += 1
            yield case

    worker.slow = f"{0:032x}"
    working = asyncio.create_task(done(run_of(worker, suite, concurrency=3), drawing()))
    async with asyncio.timeout(20):
        while len(worker.asked) < 16 * 3:
            worker.news.clear()
            await worker.news.wait()
    assert drawn == 16 * 3 + 1
    worker.go_on.set()
    assert [int(each.case_id, 16) for each in await working] == list(range(100))


async def test_runs_begin_at_a_rate(worker: Worker, suite: Suite) -> None:
    began = asyncio.get_running_loop().time()
    await done(run_of(worker, suite, concurrency=3, rate=50.0), cases(10))
    assert asyncio.get_running_loop().time() - began >= 9 / 50


async def test_an_estimate_is_of_what_is_not_paid_for(worker: Worker, suite: Suite) -> None:
    await done(run_of(worker, suite), cases(2))
    run = run_of(worker, suite, repeats=2)
    expected = estimate(run.expected(cases(3)), _PRICES, None, 2)
    assert expected.runs == 4
    assert expected.tokens == 4 * run_of_case(next(cases(1))).usage.total
