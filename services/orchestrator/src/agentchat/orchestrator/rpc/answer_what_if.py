"""Replay a recorded run with another version, model or prompt of an agent (`chat.replay.what_if`).

The step loop is `run_steps`, and the model is called as for any run; the conversation is kept in memory, and
tools and sources come from the record (`orchestrator.replay`). Nothing is appended, published or counted.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from agentchat.contracts import subjects, wire
from agentchat.contracts.replay_messages import WhatIf, WhatIfAnswered
from agentchat.conversations.errors import UnknownEvent, UnreadableEvent
from agentchat.net_guard.permitted_addresses import look_up_for
from agentchat.orchestrator.models import ModelFailure
from agentchat.orchestrator.replay.recorded_tools import Diverged
from agentchat.orchestrator.replay.replay_run import RunReplay, prepare_replay
from agentchat.orchestrator.run.interruption import Interrupted, Interruption
from agentchat.orchestrator.services import WorkerServices
from agentchat.orchestrator.tools.tool_list_cache import ToolsUnavailable
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable

MOST_BYTES = 4 * 1024 * 1024
"""Maximum size of an answer; the bus carries 8 MiB."""


@asynccontextmanager
async def serve_what_ifs(services: WorkerServices) -> AsyncIterator[None]:
    """Answer WhatIf while the block runs, as one of all orchestrators; then give up those under way."""
    running: set[Interruption] = set()

    async def answer(data: bytes) -> bytes:
        question = wire.decode_message(WhatIf, data)
        interruption = Interruption()
        running.add(interruption)
        try:
            with (
                logs.bind_context(trace_id=question.trace_id, account_id=question.account_id),
                look_up_for(question.account_id),
            ):
                done = await answer_what_if(services, question, interruption)
                logs.get_logger("what_if").info(
                    "what_if_answered",
                    outcome=done.outcome,
                    code=done.code,
                    tokens=done.usage.total,
                    ms=done.ms,
                )
                return _encode_answer(done)
        finally:
            running.discard(interruption)

    async with services.bus.rpc.serve_until_closed(subjects.WHAT_IF, "orchestrator", answer):
        try:
            yield
        finally:
            for interruption in running:
                interruption.interrupt("shutdown")


async def answer_what_if(
    services: WorkerServices, question: WhatIf, interruption: Interruption
) -> WhatIfAnswered:
    """Replay the run with that agent, within the question's seconds. Raises nothing."""
    interruption.limit(question.seconds)
    rerun: RunReplay | None = None
    try:
        rerun = await interruption.run_unless_interrupted(lambda: prepare_replay(services, question))
        if rerun is None:
            return WhatIfAnswered(outcome="not_found", detail="The run does not exist or has not ended.")
        await rerun.run(interruption)
    except ModelFailure as failure:
        done = _build_failed_answer(rerun, failure.code, str(failure))
        return replace(done, kind=failure.kind, transient=failure.transient)
    except Diverged as diverged:
        stopped = _build_failed_answer(rerun, "diverged", str(diverged))
        return replace(stopped, outcome="diverged", diverged=diverged.divergence)
    except ToolsUnavailable:
        unlisted = _build_failed_answer(
            rerun, "overloaded", "The agent's tools cannot be listed at the moment."
        )
        return replace(unlisted, transient=True)
    except Interrupted as interrupted:
        if interrupted.reason == "deadline":
            return _build_failed_answer(
                rerun, "deadline_exceeded", f"The replay took longer than {question.seconds:g} s."
            )
        return WhatIfAnswered(outcome="unavailable", detail="The worker stopped.")
    except (DatabaseUnavailable, UnknownEvent) as error:
        return WhatIfAnswered(outcome="unavailable", detail=str(error))
    except UnreadableEvent as error:
        return _build_failed_answer(rerun, "internal_error", f"The conversation cannot be read: {error}")
    return rerun.build_answer()


def _build_failed_answer(rerun: RunReplay | None, code: str, detail: str) -> WhatIfAnswered:
    done = WhatIfAnswered(outcome="failed") if rerun is None else rerun.build_answer()
    return replace(done, outcome="failed", code=code, detail=detail)


def _encode_answer(answer: WhatIfAnswered) -> bytes:
    data = wire.encode(answer)
    if len(data) <= MOST_BYTES:
        return data
    detail = f"The replayed run is longer than {MOST_BYTES:,} bytes."
    return wire.encode(
        WhatIfAnswered(outcome="failed", code="internal_error", detail=detail, usage=answer.usage)
    )
