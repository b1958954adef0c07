"""`agentchat replay what-if`: replay recorded runs with another version, model or prompt, and compare."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.text import Text

from agentchat.administration import Admin, admin_agents
from agentchat.administration.admin import translate_errors
from agentchat.administration.admin_values import Agent
from agentchat.contracts.admin_errors import Invalid, NotFound
from agentchat.contracts.text_checks import format_count, format_duration
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries.sample_conversations import RunSelection
from agentchat.evals.compared_run import ComparedRun, Summary, summarize
from agentchat.evals.replay_requests import Candidate, replay
from agentchat.evals.run_choice import ENDS, MOST, ChosenRun, RunChoice, choose_runs
from agentchat.evals.text_diff import diff_runs
from agentchat.ops import connections, printing
from agentchat.ops.admin.arguments import parse_time_option, read_file
from agentchat.ops.admin.options import AsJson
from agentchat.ops.demo_env import get_variable
from agentchat.ops.errors import RefusedError, SetupError
from agentchat.ops.printing import build_progress
from agentchat.ops.terminal_text import clean
from agentchat.runtime.prices import SETTING, Prices, UnreadablePrices, read_prices
from agentchat.runtime.prices import load_prices as load_service_prices
from agentchat.runtime.settings import SettingsError

_MOST_PROMPT = 65_536


def run_what_if(
    agent: Annotated[str, typer.Option(metavar="AGENT", help="The agent that answers, by its id.")],
    version: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Its version; the current one if unset.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="A model to use instead of the version's.")] = None,
    prompt_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A system prompt to use instead; `-` reads stdin."),
    ] = None,
    conversations: Annotated[
        list[str] | None,
        typer.Option(metavar="ID[,ID…]", help="Replay these conversations, of any agent."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="Number of conversations to sample.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Runs requested then or later: ISO 8601, UTC."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", "--to", metavar="TIME", help="Runs requested before.")
    ] = None,
    answered_by: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Runs of this agent; of --agent if unset."),
    ] = None,
    ends: Annotated[
        list[str] | None,
        typer.Option("--end", metavar="|".join(ENDS), help="Runs with this result; completed if unset."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="KEY=VALUE", help="Runs of conversations with this metadata."),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"JSON file with model prices; {SETTING} or list prices if unset."),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Runs at a time.")] = 4,
    timeout: Annotated[float, typer.Option(min=1, max=600, help="Seconds for each run.")] = 120.0,
    diff: Annotated[bool, typer.Option("--diff", help="Print what differs, calls and text.")] = False,
    fail_on_divergence: Annotated[
        bool, typer.Option("--fail-on-divergence", help="Exit code 1 if any run differs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Replay recorded runs with another agent version, model or prompt, and compare.

    Each run is answered again with its original history. The model is called with the agent's key. Tools are
    not called: results come from the log, and a call that the log does not have stops that run's replay.
    Nothing is stored, published or counted against limits.

    Choose runs by --conversations, or by --sample, --from, --until, --answered-by, --end and --tag. Without
    --sample, all matching runs of up to 10,000 conversations are replayed.
    """
    named = tuple(part.strip() for each in conversations or () for part in each.split(",") if part.strip())
    is_filtered = bool(since or until or answered_by or ends or tags)
    if named and sample is not None:
        raise SetupError("--conversations and --sample exclude each other")
    if not named and sample is None and not is_filtered:
        raise SetupError("choose runs: --conversations with ids, --sample with a number, or a filter")
    if model is not None and not model.strip():
        raise SetupError("--model is blank")
    choice = RunChoice(
        conversations=named,
        sample=sample or 0,
        seed=seed,
        runs=RunSelection(
            ends=parse_end_option(ends) or ("completed",),
            since=parse_time_option("--from", since),
            until=parse_time_option("--until", until),
            agent_id=answered_by and answered_by.lower(),
            metadata=_parse_tags(tags or []),
        ),
    )
    prompt = None if prompt_file is None else _read_prompt(prompt_file)
    table = load_prices(prices)

    async def replay_chosen_runs(admin: Admin) -> tuple[Agent, list[ComparedRun]]:
        found, chosen = await _find_version_and_runs(admin, agent, version, choice)
        candidate = Candidate(
            account_id=found.account_id,
            agent_id=found.id,
            version=found.version,
            model=model,
            system_prompt=prompt,
        )
        with translate_errors(), build_progress("replaying") as bar:
            task = bar.add_task("", total=len(chosen))
            done = await replay(
                *(admin.need_bus(), Log(admin.pool), candidate, chosen),
                prices=table,
                seconds=timeout,
                at_once=concurrency,
                on_done=lambda: bar.advance(task),
            )
        return found, done

    stopped = "stopped; active runs end by themselves, and nothing of them is stored"
    answering, done = connections.run_on_database(replay_chosen_runs, bus="needed", stopped=stopped)
    summary = summarize(done)
    if as_json:
        runs = [
            msgspec.structs.asdict(each)
            | {"diverges": each.diverges, "diff": diff_runs(each.before, each.after) if diff else None}
            for each in done
        ]
        shown = {"agent_id": answering.id, "version": answering.version, "summary": summary, "runs": runs}
        printing.print_json(shown)
    else:
        _print_table(answering, summary, done, table, diff=diff)
    if summary.not_replayed or (fail_on_divergence and summary.diverging):
        raise typer.Exit(1)


async def _find_version_and_runs(
    admin: Admin, agent_id: str, version: int | None, choice: RunChoice
) -> tuple[Agent, list[ChosenRun]]:
    """Find the version that answers, and the runs. Raises RefusedError (exit code 2) if there is none."""
    try:
        found = await admin_agents.get(admin, agent_id, version)
        with translate_errors():
            return found, await choose_runs(admin.pool, found.account_id, found.id, choice)
    except (Invalid, NotFound) as error:
        raise RefusedError(str(error), 2) from None


def _parse_tags(given: list[str]) -> dict[str, str]:
    """Parse tags of the form KEY=VALUE. Raises SetupError."""
    found: dict[str, str] = {}
    for each in given:
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise SetupError(f"--tag: {each!r} is not KEY=VALUE")
        found[key] = value
    return found


def parse_end_option(given: list[str] | None) -> tuple[str, ...]:
    """Check the values of `--end`. Raises SetupError."""
    if unknown := [each for each in given or () if each not in ENDS]:
        raise SetupError(f"--end: {unknown[0]!r} is not one of {', '.join(ENDS)}")
    return tuple(given or ())


def load_prices(path: Path | None) -> Prices:
    """Read a price table; without a path that of the services, or the list prices. Raises SetupError."""
    try:
        return load_service_prices(get_variable(os.environ, SETTING)) if path is None else read_prices(path)
    except (SettingsError, UnreadablePrices) as error:
        raise SetupError(str(error)) from None


def _read_prompt(path: str) -> str:
    text = read_file(path)
    if len(text) > _MOST_PROMPT:
        raise SetupError(f"{path} is too long for a system prompt (limit {_MOST_PROMPT:,} characters)")
    return text


_STYLES = {"+": "green", "-": "red", "@": "dim"}
_MESSAGE_CHARACTERS = 60


def _print_table(
    agent: Agent, summary: Summary, done: Sequence[ComparedRun], prices: Prices, *, diff: bool
) -> None:
    """Print recorded and replayed figures of each run as a table, what differs, and a summary."""
    headings = ["TRACE ID", "TOOLS", "ANSWER", "MISSED", "TOKENS", "COST", "TIME", "MESSAGE"]
    printing.print_table(headings, [_build_row(each) for each in done])
    for each in done:
        _print_details(each, diff=diff)
    sys.stdout.write(f"{_summarize(agent, summary, prices.currency)}\n")
    printing.print_note("the model was called; nothing was stored, published or counted against limits")


def _build_row(run: ComparedRun) -> list[object]:
    before, after = run.recorded, run.replayed
    tools = "same ({})" if run.same_tools else "other ({} → {})"
    return [
        run.trace_id,
        tools.format(before.calls, after.calls) if run.was_replayed else "-",
        _describe_answer(run),
        len(run.missed) + run.sources_missed or None,
        _format_change(f"{before.tokens:,}", f"{after.tokens:,}"),
        _format_change(_format_cost(before.cost), _format_cost(after.cost)),
        _format_change(format_duration(before.seconds), format_duration(after.seconds)),
        run.message[:_MESSAGE_CHARACTERS],
    ]


def _describe_answer(run: ComparedRun) -> str:
    if not run.was_replayed:
        return "not replayed"
    again = f"failed: {run.code}" if run.outcome == "failed" else run.outcome
    if run.recorded_end != "completed":
        return f"{run.recorded_end} → {again}"
    if run.outcome == "failed":
        return again
    return "same" if run.same_answer else f"{run.alike:.0%} similar"


def _format_change(before: str, after: str) -> str:
    return before if before == after else f"{before} → {after}"


def _format_cost(cost: float | None) -> str:
    return "?" if cost is None else f"{cost:.6f}"


def _print_details(run: ComparedRun, *, diff: bool) -> None:
    """Print missing results and failures on stderr, differences on stdout."""
    notes = [f"the log has no result of {call}; the replay stopped" for call in run.missed]
    if run.sources_missed:
        notes.append("the log has no retrieved passages; answered without sources")
    if run.outcome != "completed":
        notes.append(run.detail or run.outcome)
    for note in notes:
        printing.print_note(f"run {run.trace_id}: {note}")
    if diff and (lines := diff_runs(run.before, run.after).splitlines()):
        screen = printing.open_console()
        screen.print(Text(f"\nrun {run.trace_id}", "bold"))
        for line in lines:
            screen.print(Text(clean(line), _STYLES.get(line[:1], "")), soft_wrap=True)


def _summarize(agent: Agent, summary: Summary, currency: str) -> str:
    before, after = summary.recorded, summary.again
    runs, conversations = (
        format_count(summary.replayed, "run"),
        format_count(summary.conversations, "conversation"),
    )
    parts = [
        f"{runs} of {conversations} by version {agent.version}: {summary.diverging:,} differed "
        f"({summary.other_tools:,} in tools, {summary.other_answer:,} in the answer), "
        f"{format_count(summary.missed, 'call')} missed, {summary.failed:,} failed",
        f"tokens {before.tokens:,} → {after.tokens:,}",
        f"time {format_duration(before.seconds)} → {format_duration(after.seconds)}",
    ]
    if before.cost is not None or after.cost is not None:
        parts.append(f"cost {_format_cost(before.cost)} → {_format_cost(after.cost)} {currency}".rstrip())
    if summary.not_replayed:
        parts.append(f"{summary.not_replayed:,} could not be replayed")
    return "; ".join(parts)
