"""A live run judged after it ended: what its evaluators say of it, one score each.

Nothing of it is sent to another provider than the agent's unless its configuration names that one.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from bus import BusUnavailable
from contracts.values import Usage
from conversations.aggregate.conversation import Conversation, Run
from conversations.judged.judged_runs import StoredScore
from directory.agents import AgentConfig, AgentSettings
from directory.live_judging import LiveJudging
from evals.asking import ModelUnavailable, ask_model
from evals.errors import QuestionTooLarge
from evals.judging.evaluator_registry import COMPLETED
from evals.judging.model_judges import Ask, CouldNotJudge, NotAsked, Unfit
from evals.judging.run_evaluator import MOST_REASON, Question, RunContext, RunEvaluator, RunToJudge, evaluated
from evals.recorded_run import earlier_messages
from evals.suite import SuiteAgent
from experiments.comparison import recorded_figures, recorded_output
from experiments.prices import Prices
from experiments.reruns import Reruns

Reason = Literal["could_not_judge", "raised", "refused", "budget"]
"""Why there is no verdict: the judge's answer is none, the evaluator failed, the provider did not answer
within the tries, the day's tokens are spent."""


class ProviderRefused(CouldNotJudge):
    """The provider did not answer, and may do so later."""


class LiveScores(msgspec.Struct, frozen=True, kw_only=True):
    """`refused` have no verdict yet, and may have one later."""

    known: tuple[StoredScore, ...]
    refused: tuple[StoredScore, ...] = ()


async def live_scores(
    conversation: Conversation, run: Run, evaluators: Sequence[RunEvaluator], has: Collection[str] = ()
) -> LiveScores:
    """Of a run that has ended, by each that it has no score of. Only what completed is judged further."""
    completed = run.state == "completed"
    reason = "" if completed else f"{run.state}: {run.code}"
    known = [StoredScore(evaluator=COMPLETED, value=float(completed), passed=completed, reason=reason)]
    refused: list[StoredScore] = []
    context = _context(conversation, run)
    for each in evaluators if completed else ():
        if each.evaluation_name in has:
            continue
        score = await _score(each, context)
        (refused if score.unjudged == "refused" else known).append(score)
    return LiveScores(known=tuple(known), refused=tuple(refused))


def live_judge(agent: AgentConfig, judging: LiveJudging) -> SuiteAgent:
    """The model that judges: with the agent's address, parameters and key where it has its provider."""
    own = {name: getattr(agent, name) for name in AgentSettings.__struct_fields__}
    settings = replace(AgentSettings(**own), model=judging.judge.model or agent.model)
    if judging.judge.provider not in (None, agent.provider):
        settings = replace(settings, provider=judging.judge.provider, base_url=None, parameters={})
    return SuiteAgent(
        agent_id=agent.agent_id, account_id=agent.account_id, version=agent.version, settings=settings
    )


def asked_live(
    judge: SuiteAgent, reruns: Reruns, lasts: Callable[[], bool], spend: Callable[[str, Usage], None]
) -> Ask:
    """Questions to the judge while the budget `lasts`; `spend` is told what each cost, by model."""

    async def ask(system: str, text: str, schema: dict[str, Any]) -> str:
        if not lasts():
            raise NotAsked("the day's tokens are spent")
        try:
            reply = await ask_model(reruns, judge, text, system=system, schema=schema)
        except ModelUnavailable as error:
            spend(judge.settings.model, error.usage)
            if error.transient:
                raise ProviderRefused(str(error)) from None
            raise (Unfit if error.code == "output_invalid" else CouldNotJudge)(str(error)) from None
        except BusUnavailable as error:
            raise ProviderRefused(str(error)) from None
        except QuestionTooLarge as error:
            raise CouldNotJudge(str(error)) from None
        spend(reply.model, reply.usage)
        return reply.text

    return ask


def _context(conversation: Conversation, run: Run) -> RunContext:
    return RunContext(
        inputs=Question(
            case_id=run.trace_id,
            attempt=1,
            message=run.user_text,
            earlier=earlier_messages(conversation, run.trace_id),
            passages=len(run.sources or ()),
        ),
        output=RunToJudge(output=recorded_output(run), figures=recorded_figures(run, Prices())),
    )


async def _score(evaluator: RunEvaluator, context: RunContext) -> StoredScore:
    name = evaluator.evaluation_name
    try:
        found = await evaluated(evaluator, context)
    except NotAsked as error:
        return unjudged(name, "budget", str(error))
    except ProviderRefused as error:
        return unjudged(name, "refused", str(error))
    except CouldNotJudge as error:
        return unjudged(name, "could_not_judge", str(error))
    except Exception as error:  # noqa: BLE001 - whatever it does, it is named, and the others judge
        return unjudged(name, "raised", f"{type(error).__name__}: {error}")
    value = float(found.value)
    return StoredScore(
        evaluator=name, value=value, passed=value >= evaluator.passes_from, reason=found.reason or ""
    )


def unjudged(name: str, why: Reason, reason: str) -> StoredScore:
    """That there is no verdict."""
    return StoredScore(evaluator=name, reason=reason[:MOST_REASON], unjudged=why)
