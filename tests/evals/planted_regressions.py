"""`make evals`, second half: what the default evaluators find in a suite of 200 runs of the offline model.

The model calls a tool and leaves out words of its reply, others for another prompt (`vary`). Three
regressions are planted, each to be found in two minutes; of 20 reworded prompts at most one may be flagged.
"""

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import NamedTuple

import httpx

from bus import Bus
from evals.suite import Suite
from ops.settings import Counts
from runtime.postgres import open_pool
from tests.evals.same_version import converse, differing, run_suite
from tests.evals.shop_conversations import Speaker, made_agent, suite_of
from tests.evals.shop_replies import Shop
from tests.harness import RunningStack, running_stack, temporary_folder

_RUNS, _REWORDINGS, _SECONDS = 200, 20, 120.0
_RULE = 'End each reply with "Reply with STOP to leave this chat."'
_PROMPT = f"You are the assistant of a shop. Be brief and friendly.\n\n{_RULE}"
_MODEL = "demo-echo?tool=get_order&vary=2"
"""It answers with what it is told, in the language of that."""


_ENGLISH = "Your order is on its way and should arrive within the next days."


class _Planted(NamedTuple):
    """A change for the worse, and the evaluator that is to find it."""

    name: str
    evaluator: str
    arguments: tuple[str, ...]


async def recorded_suite(stack: RunningStack, http: httpx.AsyncClient, folder: Path) -> Suite:
    """200 conversations of a message each, a quarter of them in German."""
    found, server = stack.environment, "shop"
    caller = await made_agent(
        found,
        http,
        name="Shop",
        model=_MODEL,
        system_prompt=_PROMPT,
        mcp_servers=[{"name": server, "url": f"{found.mcp_base_url}/api/mcp", "require_approval": "never"}],
    )
    speaker = Speaker(caller, [[text] for text in Shop(_RUNS).texts(random.Random(0))])
    conversations = await converse(speaker, _RUNS, at_once=1)
    async with (
        open_pool(found.database_url, role=None) as pool,
        Bus.connect(found.nats_url, name="tests") as bus,
    ):
        return await suite_of(pool, bus, folder / "shop", caller.agent_id, conversations)


class _Verdict(NamedTuple):
    exit_code: int
    reasons: list[str]
    changed: int
    """Replies and calls that are not what was recorded."""
    seconds: float


async def _run(suite: Suite, stack: RunningStack, name: str, *arguments: str) -> _Verdict:
    began = time.monotonic()
    environ = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    code, results, told = await run_suite(suite, environ, "--concurrency", "8", *arguments)
    reasons = [line.removeprefix("agentchat: ") for line in told.splitlines() if " fell from " in line]
    found = _Verdict(code, reasons, len(differing(results)), time.monotonic() - began)
    sys.stdout.write(
        f"{name}: exit code {code} in {found.seconds:.1f} s, {found.changed} of {len(results)} changed\n"
        + "".join(f"  {each}\n" for each in reasons)
    )
    sys.stdout.flush()
    return found


async def _is_found(suite: Suite, stack: RunningStack, planted: _Planted) -> bool:
    found = await _run(suite, stack, planted.name, *planted.arguments)
    is_named = any(each.startswith(f"{planted.evaluator} ") for each in found.reasons)
    return found.exit_code == 1 and is_named and found.seconds < _SECONDS


async def _flagged(suite: Suite, stack: RunningStack, prompt: Path) -> int:
    """Of the reworded prompts. A run that changes nothing shows nothing, and counts as flagged."""
    flagged = 0
    for number in range(_REWORDINGS):
        text = f"You are the helpful assistant of a shop ({number}). Keep it short.\n\n{_RULE}"
        prompt.write_text(text)  # noqa: ASYNC240 - of a test
        found = await _run(suite, stack, f"rewording {number + 1}", "--prompt", str(prompt))
        flagged += found.exit_code != 0 or not found.changed
    return flagged


async def _prove() -> bool:
    async with (
        running_stack(Counts(orchestrators=2)) as stack,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        with temporary_folder() as folder:
            suite = await recorded_suite(stack, http, folder)
            forgetful, reworded = folder / "forgetful.txt", folder / "reworded.txt"
            forgetful.write_text(_PROMPT.removesuffix(_RULE))
            same = await _run(suite, stack, "the version that answered")
            found = [
                await _is_found(suite, stack, each)
                for each in (
                    _Planted("a rule is forgotten", "phrases", ("--prompt", str(forgetful))),
                    _Planted("an argument is dropped", "completed", ("--model", f"{_MODEL}&input={{}}")),
                    _Planted("it answers in English", "language", ("--model", f"{_MODEL}&say={_ENGLISH}")),
                )
            ]
            flagged = await _flagged(suite, stack, reworded)
            sys.stdout.write(f"{sum(found)} of {len(found)} found; {flagged} of {_REWORDINGS} flagged\n")
            return not same.changed and all(found) and flagged <= 1


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(_prove()) else 1)
