"""`agentchat replay what-if`."""

from pathlib import Path
from typing import Annotated

import typer

from administration import Admin
from administration.admin_values import Agent
from administration.errors import outcomes
from conversations.event_store.log import Log
from conversations.queries.sampling import RunFilter
from ops.admin import direct
from ops.admin.options import AsJson
from ops.admin.sources import read_file
from ops.errors import SetupError
from ops.output import INTERRUPTED
from ops.printing import note, progress
from ops.replay import what_if_show
from ops.replay.what_if_asking import Replay, WhatIfOptions, find_agent
from ops.replay.what_if_choosing import ENDS, MOST, Choice, choose, ends_of, tags_of, time_of
from ops.replay.what_if_compare import Compared, summarised
from ops.replay.what_if_prices import read_prices

_MOST_PROMPT = 65_536


def what_if(
    agent: Annotated[str, typer.Option(metavar="AGENT", help="The agent that is to answer: its id.")],
    version: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Its version; the current one if unset.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Another model than the version's.")] = None,
    prompt_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Another system prompt than the version's; `-`: stdin."),
    ] = None,
    conversations: Annotated[
        list[str] | None,
        typer.Option(metavar="ID[,ID…]", help="These conversations, whoever answered in them."),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, max=MOST, help="So many conversations that have such runs.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another number picks another sample.")] = 0,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Runs requested then or later: ISO 8601, UTC."),
    ] = None,
    until: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Runs requested before.")] = None,
    answered_by: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Runs that this agent answered; without it those of --agent."),
    ] = None,
    ends: Annotated[
        list[str] | None,
        typer.Option("--end", metavar="|".join(ENDS), help="Runs that ended so: completed, unless given."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="KEY=VALUE", help="Runs of conversations with this metadata."),
    ] = None,
    prices: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON with the prices of models, to compute the cost.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Runs at a time.")] = 4,
    timeout: Annotated[float, typer.Option(min=1, max=600, help="Seconds for each run.")] = 120.0,
    diff: Annotated[bool, typer.Option("--diff", help="Print what differs, calls and text.")] = False,
    fail_on_divergence: Annotated[
        bool, typer.Option("--fail-on-divergence", help="Exit code 1 if any run comes out otherwise.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run recorded conversations again with another agent version, model or prompt, and compare.

    Each chosen run is answered again after the history that it had. The model is really called, with the
    agent's key. Tools are not: their results come out of the log, and a call that it does not hold is
    reported and is an error for the model. Nothing is stored, published or counted against any limit.

    Runs are chosen by --conversations, or by --sample, --from, --to, --answered-by, --end and --tag: without
    --sample, all that fit, of 10,000 conversations at most.
    """
    named = tuple(part.strip() for each in conversations or () for part in each.split(",") if part.strip())
    is_filtered = bool(since or until or answered_by or ends or tags)
    if named and sample is not None:
        raise SetupError("--conversations and --sample exclude each other")
    if not named and sample is None and not is_filtered:
        raise SetupError("say which runs: --conversations with ids, --sample with a number, or a filter")
    if model is not None and not model.strip():
        raise SetupError("--model is blank")
    wanted = WhatIfOptions(
        agent_id=agent,
        version=version,
        model=model,
        system_prompt=None if prompt_file is None else _prompt(prompt_file),
        choice=Choice(
            conversations=named,
            sample=sample or 0,
            seed=seed,
            runs=RunFilter(
                ends=ends_of(ends or []),
                since=time_of("--from", since),
                until=time_of("--to", until),
                agent_id=answered_by and answered_by.lower(),
                metadata=tags_of(tags or []),
            ),
        ),
        seconds=timeout,
        at_once=concurrency,
        prices=None if prices is None else read_prices(prices),
        diff=diff,
    )
    try:
        answering, done = _replayed(wanted)
    except KeyboardInterrupt:
        note("stopped; what is under way ends by itself, and nothing of it is kept")
        raise typer.Exit(INTERRUPTED) from None
    summary = summarised(done)
    if as_json:
        what_if_show.as_json(answering, summary, done)
    else:
        what_if_show.table(answering, summary, done, wanted)
    if summary.not_replayed or (fail_on_divergence and summary.diverging):
        raise typer.Exit(1)


def _replayed(wanted: WhatIfOptions) -> tuple[Agent, list[Compared]]:
    async def work(admin: Admin) -> tuple[Agent, list[Compared]]:
        found = await find_agent(admin, wanted)
        with outcomes():
            chosen = await choose(admin, found, wanted.choice)
            with progress("replaying") as bar:
                task = bar.add_task("", total=len(chosen))
                replay = Replay(admin.need_bus(), Log(admin.pool), found, wanted)
                return found, await replay.all(chosen, lambda: bar.advance(task))

    return direct.run(work, bus="needed")


def _prompt(path: str) -> str:
    text = read_file(path)
    if len(text) > _MOST_PROMPT:
        raise SetupError(f"{path} is longer than a system prompt may be ({_MOST_PROMPT:,} characters)")
    return text
