"""Implement `agentchat eval run`: replay the cases of a suite, judge and compare them."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from agentchat.administration import Admin, admin_accounts
from agentchat.administration.admin import translate_errors
from agentchat.administration.admin_values import NewAccount
from agentchat.administration.agent_versions import create_agent
from agentchat.contracts.text_checks import format_count
from agentchat.directory.agent_validation import AgentDraft
from agentchat.evals.answer_cache import AnsweringVersion
from agentchat.evals.case_reader import load_suite_agent
from agentchat.evals.case_results import CaseResult
from agentchat.evals.cases import read_cases
from agentchat.evals.replay_requests import Reruns
from agentchat.evals.suite import RESULTS, Suite, SuiteAgent, replace_file
from agentchat.evals.suite_run import SuiteRun
from agentchat.ops import connections, printing
from agentchat.ops.admin.arguments import read_file
from agentchat.ops.admin.options import AsJson
from agentchat.ops.errors import SetupError, raise_failures_with_code_2
from agentchat.ops.evals.report_command import (
    BaselineOption,
    JunitOption,
    MarkdownOption,
    ResultsOption,
    print_verdict,
    write_verdict,
)
from agentchat.ops.evals.suite_folder import SuiteFolder, open_suite, translate_suite_errors
from agentchat.ops.evals.sync_command import find_erased
from agentchat.ops.replay.what_if_command import load_prices
from agentchat.runtime.prices import SETTING

STOPPED = "stopped; what was answered is kept, and the next run does not pay for it again"


def run(
    suite: SuiteFolder,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="The agent that answers; the suite's if unset.")
    ] = None,
    agent_version: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Its version; the current one if unset.")
    ] = None,
    from_file: Annotated[
        bool,
        typer.Option(
            "--from-file",
            help="Answer with the suite's agent.json, stored here for this run: for an installation that"
            " does not have the agent, such as a CI job's.",
        ),
    ] = False,
    prompt: Annotated[
        str | None, typer.Option(metavar="FILE", help="Another system prompt than the version's; `-`: stdin.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Another model than the version's.")] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"JSON file with model prices; {SETTING} or list prices if unset."),
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, max=100, help="Runs of each case; else the suite's.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, max=600, help="Seconds for each run.")] = 120.0,
    results: ResultsOption = None,
    baseline: BaselineOption = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Pay for every run again, also if its answer is kept.")
    ] = False,
    junit: JunitOption = None,
    markdown: MarkdownOption = None,
    as_json: AsJson = False,
) -> None:
    """Answer the cases again, and judge the replies.

    The suite's agent answers, or another version, prompt or model of it. Tools return their recorded results;
    a call that was never recorded stops the case. Answers are kept in the suite's folder .eval-cache: a run
    that was stopped continues where it was. Nothing is stored in the service, published or counted against
    any limit.

    Exit code 1: something regressed. Exit code 2: too little could be run or judged.
    """
    if from_file and (agent is not None or agent_version is not None):
        raise SetupError("--from-file has no agent but the suite's: leave --agent and --agent-version out")
    if model is not None and not model.strip():
        raise SetupError("--model is blank")
    found = open_suite(suite)
    with translate_suite_errors():
        cases = read_cases(found.cases)
    text = None if prompt is None else read_file(prompt)
    table = load_prices(prices)

    async def work(admin: Admin) -> tuple[SuiteRun, list[CaseResult]]:
        with translate_suite_errors(), translate_errors():
            async with _provide_agent(admin, found, agent, agent_version, from_file=from_file) as answering:
                asked = AnsweringVersion(agent=answering, model=model, system_prompt=text, seconds=timeout)
                gone = await find_erased(admin.pool, {each.conversation_id for each in cases})
                session = SuiteRun(
                    found,
                    cases,
                    asked,
                    Reruns(admin.need_bus()),
                    table,
                    repeats=repeats or found.settings.repeats,
                    fresh=fresh,
                    erased=gone,
                )
                printing.print_note(
                    f"{format_count(len(cases), 'case')}; about {session.estimate_tokens():,} tokens, "
                    "estimated from the recorded runs"
                )
                return session, await session.run(
                    judge_recorded=baseline is None, progress=sys.stderr.isatty()
                )

    with raise_failures_with_code_2():
        session, done = connections.run_on_database(work, bus="needed", stopped=STOPPED)
    path = results or found.folder / RESULTS
    with translate_suite_errors():
        with replace_file(path) as file:
            file.writelines(msgspec.json.encode(each) + b"\n" for each in done)
        decided = write_verdict(found, done, baseline, junit=junit, markdown=markdown)
    if as_json:
        spent = {"tokens": session.tokens, "cost": session.money, "currency": table.currency}
        printing.print_json({**spent, "cached": session.cached, "results": str(path), "verdict": decided})
    else:
        print_verdict(decided)
    cost = f", {session.money:.6f} {table.currency}".rstrip() if session.money else ""
    kept = f"; {format_count(session.cached, 'answer')} from the cache" if session.cached else ""
    printing.print_note(f"{format_count(session.tokens, 'token')}{cost}{kept}; {path}")
    if decided.exit_code:
        raise typer.Exit(decided.exit_code)


@contextlib.asynccontextmanager
async def _provide_agent(
    admin: Admin, suite: Suite, agent_id: str | None, version: int | None, *, from_file: bool
) -> AsyncIterator[SuiteAgent]:
    """Find the agent that answers, or store the suite's own while the block runs. Raises SuiteError."""
    if not from_file:
        yield await load_suite_agent(
            admin.pool, suite.settings.account, agent_id or suite.agent.agent_id, version
        )
        return
    account = await admin_accounts.create(admin, NewAccount(name="Suite", plan="Unlimited"))
    try:
        # The provider's address and key are this installation's: the suite has no key.
        settings = replace(suite.agent.settings, base_url=None)
        draft = AgentDraft(**msgspec.structs.asdict(settings))
        async with admin.transaction() as conn:
            stored = await create_agent(conn, admin.sealer, account.id, draft, actor=admin.actor)
        yield SuiteAgent(agent_id=stored, account_id=account.id, version=1, settings=settings)
    finally:
        await admin_accounts.delete(admin, account.id, force=True)
