"""Live runs are judged after they end: each once, by one of several judges. What has no verdict is named."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from contracts import events, frames
from conversations.erasures import due_erasures, forget_rows
from conversations.event_store.store import open_store
from conversations.judged.run_scores import RunScore, scores_of
from conversations.projections.follower import Follower
from conversations.projections.read_models import PROJECTIONS
from directory.live_judging import LiveJudge, LiveJudging
from evals.judging.live_scoring import live_judge
from experiments.reruns import Reruns
from judge.judge_runs import MOST_TRIES, RunJudging
from runtime.postgres import connection
from tests.orchestrator.given import Listener, World
from tests.orchestrator.scripted import Exchange, fails, says

_SIGNS_OFF: dict[str, Any] = {"name": "contains", "label": "signs off", "text": "Bye"}
_POLITE: dict[str, Any] = {"name": "rubric", "label": "polite", "rubric": "The reply is polite."}
_FULFILLED = says('{"reason": "It thanks.", "fulfilled": true}')


class Judges:
    """Two of them, which are not in one process with each other as far as they know."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.one, self.other = (RunJudging(world.pool, Reruns(world.bus)) for _ in range(2))

    async def run(self, *answers: Any, judging: LiveJudging | None, reply: str = "Sent. Bye!") -> Listener:
        """A run of an agent that is judged so; the judge's answers come after its reply."""
        agent = await self.world.agent(judging=judging)
        self.world.will(says(reply))
        run = await self.world.answered(agent)
        self.world.will(*answers)
        await self.project()
        return run

    async def project(self) -> None:
        follower = Follower(self.world.pool, self.world.log, PROJECTIONS)
        while await follower.step():
            pass

    async def judge(self, judge: RunJudging | None = None) -> None:
        judge = judge or self.one
        while await judge.step():
            pass
        await judge.settle()

    async def scores(self, run: Listener) -> dict[str, RunScore]:
        async with connection(self.world.pool) as conn:
            found = await scores_of(conn, [run.request.trace_id])
        return {each.evaluator: each for each in found.get(run.request.trace_id, ())}

    async def execute(self, statement: str) -> list[Any]:
        async with connection(self.world.pool) as conn:
            cursor = await conn.execute(statement.encode())
            return await cursor.fetchall() if cursor.description else []


@pytest.fixture
async def judges(working: World) -> AsyncIterator[Judges]:
    judges = Judges(working)
    yield judges
    await judges.execute("DELETE FROM judged_runs")


def judging(*evaluators: dict[str, Any], **more: Any) -> LiveJudging:
    given: dict[str, Any] = {"share": 1, "evaluators": evaluators, "tokens_per_day": 1000}
    return LiveJudging(**given | more)


async def test_a_run_is_judged_once_whoever_comes_after(judges: Judges) -> None:
    run = await judges.run(_FULFILLED, judging=judging(_SIGNS_OFF, _POLITE, {**_SIGNS_OFF, "label": "no"}))
    await judges.judge()
    found = await judges.scores(run)
    assert {name: each.passed for name, each in found.items()} == {
        "completed": True, "signs off": True, "polite": True, "no": True
    }  # fmt: skip
    assert found["polite"].reason == "It thanks."
    assert len(judges.world.calls) == 1

    await judges.execute("UPDATE judging_position SET position = 0")  # everything is delivered again
    await judges.judge()
    await judges.judge(judges.other)
    assert len(judges.world.calls) == 1
    assert await judges.scores(run) == found


async def test_two_judges_share_the_runs(judges: Judges) -> None:
    agent = await judges.world.agent(judging=judging(_POLITE))
    judges.world.will(says("Thanks."))
    runs = [await judges.world.answered(agent) for _ in range(12)]
    judges.world.will(_FULFILLED)
    await judges.project()
    await asyncio.gather(judges.judge(), judges.judge(judges.other))
    assert len(judges.world.calls) == len(runs)
    for run in runs:
        assert (await judges.scores(run))["polite"].passed


async def test_only_its_share_is_judged_and_nothing_without_a_setting(judges: Judges) -> None:
    without = await judges.run(judging=None)
    outside = await judges.run(judging=judging(_SIGNS_OFF, share=1e-12))
    await judges.judge()
    assert await judges.scores(without) == await judges.scores(outside) == {}


async def test_a_judge_that_dies_in_the_middle_is_followed_by_another(judges: Judges) -> None:
    asked = asyncio.Event()

    async def hang(exchange: Exchange) -> None:
        asked.set()
        await exchange.left.wait()

    run = await judges.run(hang, judging=judging(_POLITE))
    dying = asyncio.create_task(judges.one.run())
    await asyncio.wait_for(asked.wait(), 20)
    dying.cancel()
    await asyncio.wait([dying])
    judges.world.will(_FULFILLED)
    await judges.judge(judges.other)
    assert await judges.scores(run) == {}  # it is leased still

    await judges.execute("UPDATE judged_runs SET due_at = now()")
    await judges.judge(judges.other)
    assert (await judges.scores(run))["polite"].passed


async def test_an_erased_conversation_has_no_scores_also_where_it_is_erased_meanwhile(judges: Judges) -> None:
    asked, erased = asyncio.Event(), asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        asked.set()
        await erased.wait()
        await _FULFILLED(exchange)

    before = await judges.run(judging=judging(_SIGNS_OFF))
    await judges.judge()
    assert await judges.scores(before)
    during = await judges.run(wait, judging=judging(_POLITE))
    await judges.one.step()
    await asyncio.wait_for(asked.wait(), 20)
    for run in (before, during):
        await _erase(judges.world, run)
    erased.set()
    await judges.one.settle()
    await judges.judge()
    assert await judges.scores(before) == await judges.scores(during) == {}
    assert await judges.execute("SELECT FROM judged_runs") == []


async def test_an_evaluator_that_raises_is_named_and_the_others_judge(judges: Judges) -> None:
    broken = {"name": "json_schema", "schema": {"$ref": "https://nowhere.example/schema"}}
    run = await judges.run(judging=judging(broken, _SIGNS_OFF), reply='"Bye"')
    await judges.judge()
    found = await judges.scores(run)
    assert (found["json_schema"].unjudged, found["json_schema"].passed) == ("raised", None)
    assert "nowhere.example" in found["json_schema"].reason
    assert found["signs off"].passed


async def test_a_provider_that_refuses_is_tried_again_within_limits(judges: Judges) -> None:
    brief = {"name": "rubric", "label": "brief", "rubric": "It is brief."}
    answers = _FULFILLED, fails(529, "overloaded_error")
    run = await judges.run(*answers, judging=judging(brief, _POLITE, _SIGNS_OFF))
    await judges.judge()
    assert set(await judges.scores(run)) == {"completed", "brief", "signs off"}

    await judges.execute(f"UPDATE judged_runs SET due_at = now(), tries = {MOST_TRIES - 1}")
    await judges.judge()
    found = (await judges.scores(run))["polite"]
    assert (found.unjudged, found.value, found.passed) == ("refused", None, None)
    assert sum("brief" in each.system for each in judges.world.calls) == 1  # what is known is not asked again
    assert await judges.execute("SELECT FROM judged_runs WHERE due_at IS NOT NULL") == []


@pytest.mark.parametrize("answer", [says("nonsense"), fails(401, "authentication_error")])
async def test_a_judge_that_answers_nonsense_or_is_not_let_in_passes_nothing(
    judges: Judges, answer: Any
) -> None:
    run = await judges.run(answer, judging=judging(_POLITE))
    await judges.judge()
    assert (await judges.scores(run))["polite"].unjudged == "could_not_judge"


async def test_a_run_that_ends_its_judge_again_and_again_is_given_up(judges: Judges) -> None:
    run = await judges.run(judging=judging(_SIGNS_OFF))
    await judges.one.step()
    await judges.one.settle()
    await judges.execute(f"UPDATE judged_runs SET due_at = now(), tries = {MOST_TRIES}")
    await judges.execute("DELETE FROM run_scores")
    await judges.judge()
    assert (await judges.scores(run))["signs off"].unjudged == "raised"


async def test_the_days_tokens_bound_what_models_judge(judges: Judges) -> None:
    agent = await judges.world.agent(judging=judging(_POLITE, _SIGNS_OFF, tokens_per_day=10))
    judges.world.will(says("Bye"))
    runs = [await judges.world.answered(agent)]
    judges.world.will(_FULFILLED)
    await judges.project()
    await judges.judge()
    assert await judges.execute("SELECT tokens FROM judged_runs") == [(15,)]

    judges.world.will(says("Bye"))
    runs.append(await judges.world.answered(agent))
    judges.world.will(_FULFILLED)
    await judges.project()
    await judges.judge()
    first, second = [await judges.scores(each) for each in runs]
    assert (first["polite"].passed, second["polite"].unjudged) == (True, "budget")
    assert second["signs off"].passed
    assert judges.world.calls == []

    await judges.execute("UPDATE judged_runs SET worked_at = worked_at - interval '1 day'")
    judges.world.will(says("Bye"))
    tomorrow = await judges.world.answered(agent)
    judges.world.will(_FULFILLED)
    await judges.project()
    await judges.judge()
    assert (await judges.scores(tomorrow))["polite"].passed


async def test_a_run_that_failed_has_one_score_which_says_that(judges: Judges) -> None:
    agent = await judges.world.agent(judging=judging(_SIGNS_OFF))
    judges.world.will(fails(401, "authentication_error"))
    run = await judges.world.ask(agent)
    await run.until(frames.Failed)
    await judges.project()
    await judges.judge()
    (score,) = (await judges.scores(run)).values()
    assert (score.evaluator, score.passed) == ("completed", False)
    assert score.reason == "failed: provider_error"


async def test_another_provider_judges_only_where_it_is_named(judges: Judges) -> None:
    from directory.agents import load_agent

    world = judges.world
    agent_id = await world.agent(base_url=world.provider.url, parameters={"temperature": 0.5})
    agent = await load_agent(world.pool, world.account_id, agent_id)
    assert agent is not None
    own = live_judge(agent, judging(_POLITE, judge=LiveJudge(model="judge-1"))).settings
    assert (own.provider, own.model, own.base_url) == ("anthropic", "judge-1", world.provider.url)
    other = live_judge(agent, judging(_POLITE, judge=LiveJudge(provider="openai", model="gpt"))).settings
    assert (other.provider, other.base_url, other.parameters) == ("openai", None, {})


async def _erase(world: World, run: Listener) -> None:
    """As a deletion does, and the projector after it."""
    conversation_id = run.request.conversation_id
    conversation = await world.log.conversation(conversation_id)
    erased = events.ConversationErased(
        trace_id=run.request.trace_id, at=run.request.requested_at, account_id=world.account_id
    )
    async with open_store(world.settings.database_url) as store:
        await store.append(conversation, [erased])
    for erasure in await due_erasures(world.pool, limit=10):
        await forget_rows(world.pool, msgspec.structs.replace(erasure))
