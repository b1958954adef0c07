"""`agentchat eval run`: its options, and the agent that answers."""

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from administration import Admin
from administration.admin import outcomes
from conversations.event_store.log import Log
from evals.collecting import agent_of
from evals.overrides import Overrides, overridden
from evals.running import RunPlan, SuiteRun
from evals.spending import Spending
from evals.suite import SuiteBudget
from experiments.prices import Prices
from ops.admin import direct
from ops.admin.fields import read_file
from ops.admin.options import AsJson
from ops.errors import SetupError, failures_as_unknown
from ops.evals.embedded_service import run_embedded
from ops.evals.show_suite import SuiteFolder, suite_at, suite_errors
from ops.evals.suite_report import (
    HtmlOption,
    JunitOption,
    MarkdownOption,
    check_judging,
    print_verdict,
    written,
)
from ops.evals.suite_session import RESULTS, STOPPED, SuiteSession
from ops.replay.what_if_command import prices_in


def run(
    suite: SuiteFolder,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="The agent that answers; the suite's if unset.")
    ] = None,
    agent_version: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Its version; the current one if unset.")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another system prompt than the version's; `-`: stdin.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Another model than the version's.")] = None,
    provider: Annotated[str | None, typer.Option(help="Another provider: the cases are sent there.")] = None,
    embedded: Annotated[
        bool,
        typer.Option("--embedded", help="Without a running service: the suite's agent.json answers."),
    ] = False,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the prices of models, to compute the cost.")
    ] = None,
    money: Annotated[
        float | None, typer.Option(min=0, help="Stop when so much is spent; else the suite's budget.")
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Stop when so many are spent; else the suite's budget.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=100, help="Runs of each case; else the suite's.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=64, help="Runs at a time; else the suite's.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Runs that begin in a second; else the suite's.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=600, help="Seconds for each run.")] = 120.0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"The results; {RESULTS} in the suite if unset.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Pay for every run again, also where its answer is kept.")
    ] = False,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    html: HtmlOption = None,
    as_json: AsJson = False,
) -> None:
    """Answer the cases again, and judge the replies.

    By the suite's agent as it is now, or by another version, prompt or model of it. Tools answer as they did;
    a call that was never recorded stops the case, is played by the model, or is made, as the suite says.
    Answers are kept in the suite's folder .eval-cache: a run that was stopped goes on where it was. Nothing
    is stored in the service, published or counted against any limit.

    Exit code 1: something regressed. Exit code 2: too little could be run or judged.
    """
    found = suite_at(suite)
    check_judging(found)
    settings = found.settings
    given = Overrides(
        system_prompt=None if prompt is None else read_file(prompt), model=model, provider=provider
    )
    budget = SuiteBudget(
        money=settings.budget.money if money is None else money, tokens=tokens or settings.budget.tokens
    )
    spending = Spending(budget, Prices() if prices is None else prices_in(prices))
    plan = RunPlan(
        agent=found.agent,
        account_id=settings.account,
        tools=settings.tools,
        repeats=repeats or settings.repeats,
        concurrency=concurrency or settings.concurrency,
        rate=rate or settings.rate,
        seconds=timeout,
    )
    results = output or found.folder / RESULTS
    session = SuiteSession(found, spending, results, keeps=not fresh)
    with failures_as_unknown():
        if embedded:
            if agent is not None or agent_version is not None:
                raise SetupError(
                    "--embedded has no agent but the suite's: leave --agent and --agent-version out"
                )
            with suite_errors():
                answering = msgspec.structs.replace(plan, agent=overridden(found.agent, given))
            done = run_embedded(session, answering)
        else:
            work = partial(_in_service, session, plan, given, agent, agent_version)
            done = direct.run(work, bus="needed", stopped=STOPPED)
    verdict = written(found, results, junit=junit, markdown=markdown, html=html)
    session.report(done, verdict, as_json=as_json)
    if not as_json:
        print_verdict(verdict)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


async def _in_service(
    session: SuiteSession,
    plan: RunPlan,
    given: Overrides,
    agent_id: str | None,
    version: int | None,
    admin: Admin,
) -> SuiteRun:
    """Raises StackError, where the suite's account has no such agent too."""
    with suite_errors(), outcomes():
        stored = await agent_of(admin.pool, plan.account_id, agent_id or plan.agent.agent_id, version)
        answering = msgspec.structs.replace(plan, agent=overridden(stored, given))
        return await session.run(admin.need_bus(), answering, Log(admin.pool))
