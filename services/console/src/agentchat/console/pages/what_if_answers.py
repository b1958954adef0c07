"""Have the runs of a what-if answered by orchestrators, and build the view of its page."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec

from agentchat.administration.admin_values import Agent
from agentchat.bus.bus import Bus
from agentchat.bus.errors import BusUnavailable
from agentchat.contracts.admin_errors import Conflict
from agentchat.contracts.replay_messages import WhatIf
from agentchat.conversations.event_store.event_log import Log
from agentchat.conversations.queries import what_if_runs
from agentchat.conversations.queries.what_if_runs import WhatIfRow
from agentchat.evals.compared_run import ComparedRun, Summary, compare_run, summarize
from agentchat.evals.replay_requests import Reruns
from agentchat.evals.run_choice import load_conversation
from agentchat.evals.text_diff import CallPair, Piece, diff_words, pair_calls
from agentchat.runtime.postgres import Pool
from agentchat.runtime.prices import Prices

RUN_SECONDS = 120.0
_OTHER_PAGE_SECONDS = 1.0


class WhatIfView(msgspec.Struct, frozen=True, kw_only=True):
    """A what-if as its page shows it; `answered` of its `total` runs have a result.

    `runs` are the listed results; `chosen` is shown side by side.
    """

    id: str
    agent: Agent
    model: str
    changed: tuple[str, ...]
    total: int
    answered: int
    summary: Summary
    only_different: bool
    runs: Sequence[ComparedRun]
    chosen: ComparedRun | None
    pieces: Sequence[Piece] = ()
    calls: Sequence[CallPair] = ()

    @property
    def is_running(self) -> bool:
        """True if runs have no result yet."""
        return self.answered < self.total


async def build_view(
    rows: Sequence[WhatIfRow], agent: Agent, trace_id: str, *, only_different: bool
) -> WhatIfView:
    """Build the view. Without `trace_id`, the first run that differs is shown side by side."""
    results = [msgspec.json.decode(row.result, type=ComparedRun) for row in rows if row.result is not None]
    by_trace = {each.trace_id: each for each in results}
    differing = [each for each in results if each.diverges or not each.was_replayed]
    chosen = by_trace.get(trace_id) or next(iter(differing or results), None)
    view = WhatIfView(
        id=rows[0].what_if_id,
        agent=agent,
        model=rows[0].model or agent.model,
        changed=tuple(
            name
            for name, value in (("model", rows[0].model), ("system prompt", rows[0].system_prompt))
            if value is not None
        ),
        total=len(rows),
        answered=len(results),
        summary=summarize(results),
        only_different=only_different,
        runs=differing if only_different else results,
        chosen=chosen,
    )
    if chosen is None:
        return view
    # In a thread: the comparison of long texts takes a while.
    pieces = await asyncio.to_thread(diff_words, chosen.before.content, chosen.after.content)
    calls = pair_calls(chosen.before.calls, chosen.after.calls)
    return msgspec.structs.replace(view, pieces=pieces, calls=calls)


async def answer_runs(
    pool: Pool, bus: Bus, prices: Prices, what_if_id: str, at_once: int
) -> AsyncGenerator[str, None]:
    """Answer the runs that have no result, `at_once` at a time; yield "" after each.

    If no orchestrator answers, yield the reason and end. Runs that another page has claimed are waited for.
    If the caller stops early, its claims are released. The question goes by `evals.replay_requests` and the
    bus to the orchestrator.

    Raises:
        DatabaseUnavailable: If Postgres does not answer.
    """
    reruns, log = Reruns(bus), Log(pool)
    tasks: dict[asyncio.Task[None], WhatIfRow] = {}
    claiming: asyncio.Task[WhatIfRow | None] | None = None
    try:
        yield ""
        while True:
            while len(tasks) < at_once:
                claiming = asyncio.create_task(what_if_runs.claim(pool, what_if_id))
                row = await asyncio.shield(claiming)
                claiming = None
                if row is None:
                    break
                tasks[asyncio.create_task(_answer(pool, log, reruns, prices, row))] = row
            if not tasks:
                if all(row.result is not None for row in await what_if_runs.find(pool, what_if_id)):
                    return
                await asyncio.sleep(_OTHER_PAGE_SECONDS)
                yield ""
                continue
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            try:
                for task in done:
                    task.result()
                    del tasks[task]
            except BusUnavailable as error:
                yield f"No orchestrator answers: {error}"
                return
            yield ""
    finally:
        for task in tasks:
            task.cancel()
        claimed = None if claiming is None else await claiming
        await what_if_runs.release(pool, [*tasks.values(), *([claimed] if claimed is not None else [])])


async def _answer(pool: Pool, log: Log, reruns: Reruns, prices: Prices, row: WhatIfRow) -> None:
    """Have one run answered and store the comparison.

    Raises BusUnavailable, DatabaseUnavailable.
    """
    try:
        run = (await load_conversation(log, row.conversation_id)).run(row.trace_id)
    except Conflict:
        run = None
    if run is None:
        await what_if_runs.drop(pool, row)
        return
    question = WhatIf(
        account_id=row.account_id,
        agent_id=row.agent_id,
        agent_version=row.agent_version,
        conversation_id=row.conversation_id,
        trace_id=row.trace_id,
        model=row.model,
        system_prompt=row.system_prompt,
        seconds=RUN_SECONDS,
    )
    result = compare_run(row.conversation_id, run, await reruns.answer(question), prices)
    await what_if_runs.store(pool, row, msgspec.json.encode(result))
