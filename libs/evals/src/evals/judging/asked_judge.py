"""The model that judges a suite: the agent's own, or the one that `suite.yaml` names."""

from typing import Any

from msgspec.structs import replace

from bus import BusUnavailable
from contracts.values import Usage
from directory.model_parameters import summary_parameters
from evals.answer_cache import CacheFolder
from evals.asking import ModelReply, ModelUnavailable, ask_model
from evals.errors import QuestionTooLarge
from evals.judging.model_judges import Ask, CouldNotJudge, NotAsked, Unfit
from evals.spending import Spending
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


def asked_of(judge: SuiteAgent, reruns: Reruns, spending: Spending, cache: CacheFolder) -> Ask:
    """Questions to the judge: each is paid for once, and none is asked when the budget is spent."""
    settings = judge.settings
    configuration = {
        "provider": settings.provider,
        "base_url": settings.base_url,
        "model": settings.model,
        "parameters": summary_parameters(settings.provider, settings.parameters),
    }

    async def ask(system: str, text: str, schema: dict[str, Any]) -> str:
        question = {"judge": configuration, "system": system, "text": text, "schema": schema}
        cached = cache.find(question, ModelReply)
        if cached is not None:
            return cached.text
        spending.check(settings.model)
        if not spending.lasts:
            raise NotAsked("the budget of the run is spent")
        reserved = spending.reserve(settings.model, _expected(system + text))
        try:
            reply = await ask_model(reruns, judge, text, system=system, schema=schema)
        except ModelUnavailable as error:
            spending.add(settings.model, error.usage)
            failure = Unfit if error.code == "output_invalid" else CouldNotJudge
            raise failure(str(error)) from None
        except (QuestionTooLarge, BusUnavailable) as error:
            raise CouldNotJudge(str(error)) from None
        finally:
            spending.release(reserved)
        spending.add(reply.model, reply.usage)
        cache.store(question, reply)
        return reply.text

    return ask


def _expected(text: str) -> Usage:
    """A rough count: four bytes a token, and a verdict of two sentences."""
    return Usage(input_tokens=len(text.encode()) // 4, output_tokens=100)
