"""Cases of a suite answered again: what is paid for once, what stops a run, and what each case came to."""

from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agentchat.bus.bus import Bus
from agentchat.contracts import subjects, wire
from agentchat.contracts.replay_messages import AskedTool, Divergence, WhatIf, WhatIfAnswered
from agentchat.contracts.values import Usage
from agentchat.evals.answer_cache import CACHE, AnsweringVersion
from agentchat.evals.case_results import CaseResult
from agentchat.evals.cases import Case
from agentchat.evals.errors import UnfitSuite
from agentchat.evals.replay_requests import Reruns
from agentchat.evals.suite import Suite
from agentchat.evals.suite_run import SuiteRun
from agentchat.runtime.prices import Price, Prices
from tests.evals.made_cases import make_cases, make_suite

_PRICES = Prices(models={"demo-shop-1": Price(input=1.0, output=2.0)}, currency="EUR")
_USAGE = Usage(input_tokens=80, output_tokens=20)
_CALL = AskedTool(round=1, name="get_order", input={"id": "A-1"}, missed=True)


class Worker:
    """An orchestrator as far as the bus sees it: `answer` says what becomes of a question."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.asked: list[WhatIf] = []
        self.answer: Callable[[WhatIf], WhatIfAnswered] = lambda question: build_answer(question)

    async def handle(self, data: bytes) -> bytes:
        question = wire.decode_message(WhatIf, data)
        self.asked.append(question)
        return wire.encode(self.answer(question))


def build_answer(_: WhatIf, **changes: Any) -> WhatIfAnswered:
    fields: dict[str, Any] = {
        "outcome": "completed",
        "model": "demo-shop-1",
        "content": "Yes.",
        "usage": _USAGE,
    }
    return WhatIfAnswered(**fields | changes)


@pytest.fixture
async def worker(nats_url: str) -> AsyncIterator[Worker]:
    async with Bus.connect(nats_url, name="tests") as bus:
        worker = Worker(bus)
        async with bus.rpc.serve_until_closed(subjects.WHAT_IF, "orchestrator", worker.handle):
            yield worker


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return make_suite(tmp_path / "suite", settings="concurrency: 1\n")


def run_of(worker: Worker, suite: Suite, given: Sequence[Case], repeats: int = 1, **more: Any) -> SuiteRun:
    answering = AnsweringVersion(agent=suite.agent, **more.pop("answering", {}))
    return SuiteRun(suite, given, answering, Reruns(worker.bus), _PRICES, repeats=repeats, **more)


async def run_suite(run: SuiteRun) -> list[CaseResult]:
    return await run.run(judge_recorded=True)


async def test_what_was_paid_for_is_not_asked_again(worker: Worker, suite: Suite) -> None:
    given = make_cases(3)
    first = run_of(worker, suite, given, repeats=2)
    assert first.estimate_tokens() > 0
    done = await run_suite(first)
    assert (len(worker.asked), first.tokens, first.cached) == (6, 600, 0)
    assert first.money == pytest.approx(6 * 120 / 1e6)
    again = run_of(worker, suite, given, repeats=2)
    assert again.estimate_tokens() == 0
    assert await run_suite(again) == done
    assert (len(worker.asked), again.tokens, again.cached) == (6, 0, 6)
    await run_suite(run_of(worker, suite, given, answering={"system_prompt": "Be brief."}))
    assert len(worker.asked) == 9, "another prompt is another question"
    await run_suite(run_of(worker, suite, given, fresh=True))
    assert len(worker.asked) == 12
    assert (suite.folder / CACHE / ".gitignore").read_text() == "*\n"


async def test_a_question_has_the_record_and_the_version(worker: Worker, suite: Suite) -> None:
    (case,) = given = make_cases(1)
    await run_suite(run_of(worker, suite, given, answering={"model": "other", "seconds": 7.0}))
    (question,) = worker.asked
    assert (question.agent_id, question.agent_version, question.account_id) == ("agent-1", 3, "account-1")
    assert (question.trace_id, question.model, question.seconds) == (case.id, "other", 7.0)
    assert question.record is not None
    assert [bytes(each) for each in question.record] == [bytes(each) for each in case.events]


async def test_each_case_has_its_scores(worker: Worker, suite: Suite) -> None:
    """The recorded run called no tool, and the answer does."""
    worker.answer = lambda question: build_answer(
        question, calls=(msgspec.structs.replace(_CALL, missed=False),)
    )
    (found,) = await run_suite(run_of(worker, suite, make_cases(1)))
    assert found.outcome == "completed"
    assert found.before["completed"] == found.after["completed"] == 1
    assert found.before["ToolCalls"] == 1
    assert found.after["ToolCalls"] == 0
    assert found.reasons["ToolCalls"].startswith("extra call: get_order")
    assert found.compared is not None
    assert found.compared.after.content == "Yes."


async def test_tries_are_averaged_and_the_worst_outcome_counts(worker: Worker, suite: Suite) -> None:
    def fail_every_second(question: WhatIf) -> WhatIfAnswered:
        fails = len(worker.asked) % 2 == 0
        return build_answer(question, outcome="failed" if fails else "completed", detail="Oh.")

    worker.answer = fail_every_second
    (found,) = await run_suite(run_of(worker, suite, make_cases(1), repeats=2))
    assert (found.outcome, found.after["completed"]) == ("failed", 0.5)
    assert found.reasons["completed"] == "failed: Oh."


async def test_a_call_that_was_not_recorded_ends_the_case(worker: Worker, suite: Suite) -> None:
    divergence = Divergence(call=_CALL)
    worker.answer = lambda question: build_answer(
        question, outcome="diverged", detail="Round 1 calls get_order", calls=(_CALL,), diverged=divergence
    )
    (found,) = await run_suite(run_of(worker, suite, make_cases(1)))
    assert (found.outcome, found.after["completed"]) == ("diverged", 0)
    assert found.compared is not None
    assert found.compared.missed == ('get_order {"id":"A-1"}',)


@pytest.mark.parametrize(
    ("answer", "stops"),
    [
        ({"outcome": "failed", "code": "provider_error", "kind": "http_529", "transient": True}, False),
        ({"outcome": "failed", "code": "provider_error", "kind": "http_401"}, False),
        ({"outcome": "failed", "code": "provider_error", "kind": "no_key"}, True),
        ({"outcome": "failed", "code": "agent_not_found"}, True),
    ],
)
async def test_what_says_nothing_of_the_version_is_not_run(
    worker: Worker, suite: Suite, answer: dict[str, Any], stops: bool
) -> None:
    worker.answer = lambda question: build_answer(question, detail="No.", **answer)
    found = await run_suite(run_of(worker, suite, make_cases(3)))
    assert {(each.outcome, each.detail) for each in found} == {("not_run", "No.")}
    assert not any(each.after for each in found)
    assert len(worker.asked) == (1 if stops else 3)


async def test_the_budget_stops_a_run(worker: Worker, tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite", settings="concurrency: 1\nbudget: {tokens: 150}\n")
    found = await run_suite(run_of(worker, suite, make_cases(4)))
    assert sorted(each.outcome for each in found) == ["completed", "completed", "not_run", "not_run"]
    assert "the run's budget is spent" in {each.detail for each in found}


def test_a_budget_in_money_needs_prices(worker: Worker, tmp_path: Path) -> None:
    suite = make_suite(tmp_path / "suite", settings="budget: {money: 1}\n")
    with pytest.raises(UnfitSuite, match=r"budget\.money needs a price table that has unknown"):
        run_of(worker, suite, make_cases(1), answering={"model": "unknown"})


async def test_erased_and_foreign_cases_are_not_asked(worker: Worker, suite: Suite) -> None:
    one, two = make_cases(2)
    foreign = msgspec.structs.replace(two, account_id="other", conversation_id="elsewhere")
    gone = frozenset({one.conversation_id})
    found = await run_suite(run_of(worker, suite, [one, foreign], erased=gone))
    assert [each.outcome for each in found] == ["erased", "not_run"]
    assert not worker.asked


async def test_without_orchestrators_nothing_is_run(nats_url: str, suite: Suite) -> None:
    async with Bus.connect(nats_url, name="tests") as bus:
        found = await run_suite(run_of(Worker(bus), suite, make_cases(2)))
    assert {each.outcome for each in found} == {"not_run"}
    assert all("no orchestrator answers" in each.detail for each in found)
