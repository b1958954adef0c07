"""`agentchat eval collect` and `agentchat eval add`: runs of the log become cases of a suite."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec.structs import replace

from administration import Admin, admin_agents
from administration.admin import outcomes
from contracts.admin_errors import NotFound
from conversations.projections.feedback_table import Rating
from conversations.queries.find_run import find_run
from evals.case_file import writing_cases
from evals.cases import Case
from evals.choosing import CandidateRuns, CaseFilter
from evals.collecting import CaseReader, agent_of
from evals.errors import NotACase
from evals.redaction_rules import ready
from evals.stratified import StratifiedSample
from evals.suite import (
    SETTINGS,
    Suite,
    make_folder,
    new_settings,
    read_file,
    settings_in,
    write_agent,
    write_file,
    write_ignored,
)
from experiments.chosen_runs import ENDS, MOST
from experiments.prices import Prices
from ops import printing
from ops.admin import direct
from ops.admin.options import AsJson
from ops.errors import RefusedError, SetupError
from ops.evals.show_suite import SuiteFolder, print_slices, slices_as_json, suite_at, suite_errors
from ops.output import counted
from ops.printing import progress
from ops.replay.what_if_command import ends_of_option, prices_in, time_of_option


class _Collected(msgspec.Struct, kw_only=True):
    """The cases that were written, of so many runs that fit; by rule the number of cases that it struck."""

    rules: dict[str, int]
    cases: int = 0
    fitting: int = 0
    left_out: list[str] = []
    slices: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)

    def count(self, case: Case) -> None:
        self.cases += 1
        self.slices.update(case.slices.items())
        for label in case.redacted:
            self.rules[label] += 1


def collect(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder of the suite; it is made.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Runs that this agent answered; a new suite is for it."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Runs requested then or later: ISO 8601, UTC."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Runs requested before.")] = None,
    tool: Annotated[
        str | None, typer.Option(metavar="NAME", help="Runs that called it, by its name for the model.")
    ] = None,
    ends: Annotated[
        list[str] | None,
        typer.Option("--end", metavar="|".join(ENDS), help="Runs that ended so; any if unset."),
    ] = None,
    rating: Annotated[
        Rating | None, typer.Option(help="Runs whose reply was rated so: a mean score below 0, or above.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Runs with these words in question, reply or title.")
    ] = None,
    cost: Annotated[
        float | None, typer.Option(min=0, help="Runs that cost so much or more, by --prices.")
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the prices of models.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="So many: of each kind a share, of a rare one all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another number chooses another sample.")] = 0,
    fresh: Annotated[
        bool, typer.Option("--replace", help="Remove the cases that are there; else they stay.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make cases of recorded runs: all that fit, or a sample.

    A new suite gets a suite.yaml with rules that redact e-mail addresses, phone and card numbers. Edit it,
    and collect again: every case is redacted by the rules before it is written. A sample keeps what is rare:
    how a run ended, the tools that it called, the language of the question, the length of the conversation,
    the rating.

    Exit code 1: some runs could not be collected; they are reported.
    """
    if cost is not None and prices is None:
        raise SetupError("--cost needs --prices, a file with the prices of models")
    wanted = CaseFilter(
        agent_id=agent and agent.lower(),
        since=time_of_option("--from", since),
        until=time_of_option("--to", until),
        ends=ends_of_option(ends) or ENDS,
        tool=tool,
        rating=rating,
        text=text,
        cost=cost,
    )
    table = Prices() if prices is None else prices_in(prices)
    is_there = (output / SETTINGS).exists()
    if not is_there and agent is None:
        raise SetupError(f"{output} has no {SETTINGS}: name the agent whose runs are collected by --agent")

    async def work(admin: Admin) -> _Collected:
        data = read_file(output / SETTINGS) if is_there else await _first_settings(admin, agent or "")
        settings = settings_in(data)
        current = await agent_of(admin.pool, settings.account, settings.agent)
        suite = Suite(folder=output, settings=settings, agent=current)
        reader, done = _begun(admin, suite)
        fitting = replace(wanted, agent_id=wanted.agent_id or settings.agent)
        candidates = CandidateRuns(admin.pool, settings.account, fitting, prices=table, seed=seed)
        chosen = await _chosen(candidates, sample, seed, done)
        make_folder(output)
        with writing_cases(suite.cases, keep=not fresh) as file, progress("collecting") as bar:
            for trace_id, conversation_id in bar.track(sorted(chosen.items())):
                try:
                    case = await reader.read(conversation_id, trace_id)
                except NotACase as error:
                    done.left_out.append(str(error))
                    continue
                file.add(case)
                done.count(case)
            write_agent(output, suite.agent)
            write_ignored(output)
            write_file(output / SETTINGS, data)
        return done

    done = _run(work)
    _report(done, as_json=as_json)
    if done.left_out:
        raise RefusedError(f"{counted(len(done.left_out), 'run')} could not be collected")


def add(
    folder: SuiteFolder,
    runs: Annotated[list[str], typer.Argument(metavar="TRACE_ID...", help="The runs, by their traces.")],
    as_json: AsJson = False,
) -> None:
    """Make cases of named runs.

    Such as one that failed, or that somebody rated badly. They are redacted by the suite's rules. Exit code
    2: one is no run of the suite's account that has ended; then none is added.
    """
    suite = suite_at(folder)

    async def work(admin: Admin) -> _Collected:
        reader, done = _begun(admin, suite)
        with writing_cases(suite.cases, keep=True) as file:
            for trace_id in sorted({each.strip().lower() for each in runs}):
                found = await find_run(admin.pool, trace_id)
                if found is None or found.begun_at is None:
                    raise NotACase(trace_id, "there is no such run")
                case = await reader.read(found.conversation_id, trace_id)
                file.add(case)
                done.count(case)
                done.fitting += 1
        return done

    _report(_run(work), as_json=as_json)


def _run(work: Callable[[Admin], Awaitable[_Collected]]) -> _Collected:
    async def reported(admin: Admin) -> _Collected:
        with outcomes():
            return await work(admin)

    with suite_errors():
        return direct.run(reported, bus="if known", stopped="stopped; the suite is as it was")


def _begun(admin: Admin, suite: Suite) -> tuple[CaseReader, _Collected]:
    rules = ready(suite.settings.redact, suite.folder)
    rpc = None if admin.bus is None else admin.bus.rpc
    return CaseReader(admin.pool, rpc, suite.agent, rules), _Collected(rules=dict.fromkeys(rules.labels, 0))


async def _first_settings(admin: Admin, agent_id: str) -> bytes:
    """Raises SetupError where there is no such agent."""
    try:
        found = await admin_agents.get(admin, agent_id)
    except NotFound as error:
        raise SetupError(str(error)) from None
    return new_settings(found.id, found.account_id)


async def _chosen(
    candidates: CandidateRuns, sample: int | None, seed: int, done: _Collected
) -> dict[str, str]:
    """The conversations of runs, by their traces. Raises SetupError where they are too many."""
    runs: StratifiedSample[tuple[str, ...]] = StratifiedSample(sample or MOST, seed)
    with progress("looking through") as bar:
        task = bar.add_task("", total=None)
        async for each in candidates.read():
            runs.add(each.stratum, f"{each.trace_id} {each.conversation_id}")
            bar.update(task, completed=candidates.looked_through)
    done.fitting = sum(runs.seen.values())
    done.left_out += candidates.unreadable
    if candidates.was_cut:
        printing.note(f"{MOST:,} conversations were looked through, and there may be more")
    if sample is None and done.fitting > MOST:
        raise SetupError(f"{done.fitting:,} runs fit: choose some of them by --sample")
    return dict(each.split(" ") for each in runs.chosen())


def _report(done: _Collected, *, as_json: bool) -> None:
    if as_json:
        named = {name: getattr(done, name) for name in ("cases", "fitting", "left_out", "rules")}
        printing.as_json(named | {"slices": slices_as_json(done.slices)})
    else:
        print_slices(done.slices)
    for line in done.left_out:
        printing.note(line)
    for label, cases in done.rules.items():
        if done.cases and not cases:
            printing.note(f"the rule {label} found nothing in any case")
    printing.note(f"{counted(done.cases, 'case')} of {counted(done.fitting, 'run')}")
