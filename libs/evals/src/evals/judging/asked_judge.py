"""The model that judges a suite: the agent's own, or the one that `suite.yaml` names."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from bus import BusUnavailable
from contracts.values import Usage
from evals.asking import ModelUnavailable, ask_model
from evals.errors import QuestionTooLarge
from evals.judging.model_judges import Ask, CouldNotJudge
from evals.suite import JudgeModel, Suite, SuiteAgent
from experiments.reruns import Reruns


def judge_of(suite: Suite, answering: SuiteAgent) -> SuiteAgent:
    """Cases go to the provider of the suite's agent, whoever answers them in a run, unless the suite names
    another one for its judge. The address and the key are those of the agent that answers, where it has the
    same provider.
    """
    judge, settings = suite.settings.judge or JudgeModel(), suite.agent.settings
    provider = judge.provider or settings.provider
    parameters = settings.parameters if provider == settings.provider else {}
    base_url = judge.base_url
    if base_url is None and provider == answering.settings.provider:
        base_url = answering.settings.base_url
    elif base_url is None and provider == settings.provider:
        base_url = settings.base_url
    return replace(
        answering,
        settings=replace(
            settings,
            provider=provider,
            base_url=base_url,
            model=judge.model or settings.model,
            parameters=parameters,
        ),
    )


def asked_of(judge: SuiteAgent, reruns: Reruns, spend: Callable[[str, Usage], None]) -> Ask:
    """`spend` is told of what each question cost, by model."""

    async def ask(system: str, text: str, schema: dict[str, Any]) -> str:
        try:
            reply = await ask_model(reruns, judge, text, system=system, schema=schema)
        except ModelUnavailable as error:
            spend(judge.settings.model, error.usage)
            raise CouldNotJudge(str(error)) from None
        except (QuestionTooLarge, BusUnavailable) as error:
            raise CouldNotJudge(str(error)) from None
        spend(reply.model, reply.usage)
        return reply.text

    return ask
