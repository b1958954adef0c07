"""Implement `agentchat eval collect` and `agentchat eval add`: runs of the log become cases of a suite."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec.structs import replace

from agentchat.administration import Admin, admin_agents
from agentchat.administration.admin import translate_errors
from agentchat.contracts.admin_errors import NotFound
from agentchat.contracts.text_checks import format_count
from agentchat.conversations.projections.feedback_table import Rating
from agentchat.conversations.queries.find_by_trace import find_run
from agentchat.evals.case_reader import CaseReader, load_suite_agent
from agentchat.evals.case_sampling import CandidateRuns, CaseFilter, draw_sample
from agentchat.evals.cases import MOST, Case, merge_cases, read_cases, write_cases
from agentchat.evals.errors import DependsOnFiles, NotACase
from agentchat.evals.run_choice import ENDS
from agentchat.evals.run_choice import MOST as MOST_CONVERSATIONS
from agentchat.evals.suite import (
    SETTINGS,
    Suite,
    make_folder,
    parse_settings,
    read_file,
    render_settings,
    write_agent,
    write_file,
)
from agentchat.ops import connections, printing
from agentchat.ops.admin.arguments import parse_time_option
from agentchat.ops.admin.options import AsJson
from agentchat.ops.errors import RefusedError, SetupError
from agentchat.ops.evals.suite_folder import SuiteFolder, open_suite, translate_suite_errors
from agentchat.ops.printing import build_progress
from agentchat.ops.replay.what_if_command import load_prices, parse_end_option
from agentchat.runtime.prices import SETTING


class CollectedCases(msgspec.Struct, kw_only=True):
    """The cases that were written, of `fitting` runs.

    `with_files` counts runs that cannot be cases, `removed` present cases of such runs. `left_out` names runs
    that could not be collected.
    """

    cases: list[Case] = []
    fitting: int = 0
    with_files: int = 0
    removed: int = 0
    left_out: list[str] = []


def collect(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The suite's folder; created if missing.")
    ],
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Runs that this agent answered; a new suite is for it."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Runs requested then or later: ISO 8601, UTC."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", "--to", metavar="TIME", help="Runs requested before.")
    ] = None,
    tool: Annotated[str | None, typer.Option(metavar="NAME", help="Runs that called this tool.")] = None,
    ends: Annotated[
        list[str] | None,
        typer.Option("--end", metavar="|".join(ENDS), help="Runs with this result; any if unset."),
    ] = None,
    rating: Annotated[
        Rating | None, typer.Option(help="Runs whose reply has a mean score below 0 (bad) or above 0 (good).")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="WORDS", help="Runs with these words in question, reply or title.")
    ] = None,
    cost: Annotated[float | None, typer.Option(min=0, help="Runs that cost at least this much.")] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"JSON file with model prices; {SETTING} or list prices if unset."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Number of runs: an equal share of each kind.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    fresh: Annotated[bool, typer.Option("--replace", help="Remove the existing cases first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Collect recorded runs as cases of a suite: all matching runs, or a sample.

    A new suite gets a suite.yaml with rules that redact e-mail addresses, phone and card numbers. Edit it,
    and collect again: every case is redacted by the rules before it is written. A sample has an equal
    share of each kind of run, by result, tools, language, length of the conversation and rating.

    Runs of conversations with files are left out and counted: a case cannot have files. Cases with files that
    an earlier release collected are removed.

    Exit code 1: some runs could not be collected; they are reported.
    """
    wanted = CaseFilter(
        agent_id=agent and agent.lower(),
        since=parse_time_option("--from", since),
        until=parse_time_option("--until", until),
        ends=parse_end_option(ends) or ENDS,
        tool=tool,
        rating=rating,
        text=text,
        cost=cost,
    )
    table = load_prices(prices)
    is_there = (output / SETTINGS).exists()
    if not is_there and agent is None:
        raise SetupError(f"{output} has no {SETTINGS}: name the agent whose runs are collected by --agent")

    async def work(admin: Admin) -> CollectedCases:
        data = read_file(output / SETTINGS) if is_there else await _render_first_settings(admin, agent or "")
        settings = parse_settings(data)
        current = await load_suite_agent(admin.pool, settings.account, settings.agent)
        suite = Suite(folder=output, settings=settings, agent=current)
        fitting = replace(wanted, agent_id=wanted.agent_id or settings.agent)
        candidates = CandidateRuns(admin.pool, settings.account, fitting, prices=table, seed=seed)
        chosen, done = await _choose(candidates, sample, seed)
        reader = _build_reader(admin, suite)
        with build_progress("collecting") as bar:
            for trace_id, conversation_id in bar.track(sorted(chosen.items())):
                try:
                    done.cases.append(await reader.read(conversation_id, trace_id))
                except DependsOnFiles:
                    done.with_files += 1
                except NotACase as error:
                    done.left_out.append(str(error))
        make_folder(output)
        redacted = []
        for each in [] if fresh or not suite.cases.exists() else read_cases(suite.cases):
            try:
                redacted.append(await asyncio.to_thread(reader.redact_again, each))
            except DependsOnFiles:
                done.removed += 1
        write_cases(suite.cases, merge_cases(redacted, done.cases))
        write_agent(output, suite.agent)
        write_file(output / SETTINGS, data)
        return done

    done = _run(work)
    _report(done, as_json=as_json)
    if done.left_out:
        raise RefusedError(f"{format_count(len(done.left_out), 'run')} could not be collected")


def add(
    folder: SuiteFolder,
    runs: Annotated[list[str], typer.Argument(metavar="TRACE_ID...", help="The runs, by their traces.")],
    as_json: AsJson = False,
) -> None:
    """Add runs to a suite by their traces.

    Redacted by the suite's rules. Exit code 2: a trace is not an ended run of the suite's account; nothing
    is added.
    """
    suite = open_suite(folder)

    async def work(admin: Admin) -> CollectedCases:
        done = CollectedCases()
        reader = _build_reader(admin, suite)
        for trace_id in sorted({each.strip().lower() for each in runs}):
            found = await find_run(admin.pool, trace_id)
            if found is None or found.begun_at is None:
                raise NotACase(trace_id, "there is no such run")
            done.cases.append(await reader.read(found.conversation_id, trace_id))
        done.fitting = len(done.cases)
        present = read_cases(suite.cases) if suite.cases.exists() else []
        write_cases(suite.cases, merge_cases(present, done.cases))
        return done

    _report(_run(work), as_json=as_json)


def _run(work: Callable[[Admin], Awaitable[CollectedCases]]) -> CollectedCases:
    async def work_with_errors(admin: Admin) -> CollectedCases:
        with translate_errors():
            return await work(admin)

    with translate_suite_errors():
        return connections.run_on_database(
            work_with_errors, bus="if known", stopped="stopped; the suite was not changed"
        )


def _build_reader(admin: Admin, suite: Suite) -> CaseReader:
    rpc = None if admin.bus is None else admin.bus.rpc
    return CaseReader(admin.pool, rpc, suite.agent, suite.settings.redact)


async def _render_first_settings(admin: Admin, agent_id: str) -> bytes:
    """Raises SetupError if there is no such agent."""
    try:
        found = await admin_agents.get(admin, agent_id)
    except NotFound as error:
        raise SetupError(str(error)) from None
    return render_settings(found.id, found.account_id)


async def _choose(
    candidates: CandidateRuns, sample: int | None, seed: int
) -> tuple[dict[str, str], CollectedCases]:
    """Choose runs: conversations by traces. Raises SetupError if they are too many."""
    with build_progress("reading") as bar:
        task = bar.add_task("", total=None)
        found = []
        async for each in candidates.read():
            found.append(each)
            bar.update(task, completed=candidates.looked_through)
    done = CollectedCases(fitting=len(found), left_out=list(candidates.unreadable))
    if candidates.looked_through == MOST_CONVERSATIONS:
        printing.print_note(f"{MOST_CONVERSATIONS:,} conversations were read; there may be more")
    if sample is None and len(found) > MOST:
        raise SetupError(f"{len(found):,} runs match; draw a sample with --sample")
    chosen = draw_sample(found, sample or MOST, seed)
    return {each.trace_id: each.conversation_id for each in chosen}, done


def _report(done: CollectedCases, *, as_json: bool) -> None:
    slices = Counter(pair for each in done.cases for pair in each.slices.items())
    ordered = sorted(slices.items(), key=lambda entry: (entry[0][0], -entry[1], entry[0][1]))
    if as_json:
        rows = [{"slice": name, "value": value, "cases": count} for (name, value), count in ordered]
        shown: dict[str, Any] = {
            "cases": len(done.cases),
            "fitting": done.fitting,
            "with_files": done.with_files,
            "removed": done.removed,
            "left_out": done.left_out,
        }
        printing.print_json(shown | {"redacted": _count_redactions(done.cases), "slices": rows})
    else:
        printing.print_table(
            ("SLICE", "VALUE", "CASES"), [(name, value, count) for (name, value), count in ordered]
        )
    for line in done.left_out:
        printing.print_note(line)
    for label, count in _count_redactions(done.cases).items():
        printing.print_note(f"redacted by {label}: {format_count(count, 'case')}")
    if done.with_files:
        runs = format_count(done.with_files, "run")
        printing.print_note(f"left out {runs}: the conversation has files, which a case cannot have")
    if done.removed:
        printing.print_note(f"removed {format_count(done.removed, 'case')} of the suite that had files")
    printing.print_note(
        f"collected {format_count(len(done.cases), 'case')} from {format_count(done.fitting, 'run')}"
    )


def _count_redactions(cases: Iterable[Case]) -> dict[str, int]:
    return dict(Counter(label for each in cases for label in each.redacted))
