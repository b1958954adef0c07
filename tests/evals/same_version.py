"""`make evals`: recorded runs of all kinds done again by the version that answered them: nothing may differ.

The suites are made from a stack of their own, and run against it; the first one also by an embedded service.
"""

import argparse
import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import msgspec
from typer.testing import CliRunner

from bus import Bus
from evals.results import CaseResult
from evals.suite import Suite
from experiments.text_diff import unified
from ops import demo
from ops import record as process_record
from ops.main import app
from ops.probes import HttpProbe
from ops.settings import Counts
from runtime.postgres import open_pool
from tests.evals.shop_conversations import Speaker, speakers, suite_of
from tests.harness import RunningStack, running_stack, temporary_folder

_AT_ONCE = 6


async def record(
    stack: RunningStack, http: httpx.AsyncClient, folder: Path, runs: int, at_once: int = _AT_ONCE
) -> list[Suite]:
    """Conversations until each kind has its share of so many runs, as suites."""
    found, suites = stack.environment, []
    made = await speakers(found, http)
    async with AsyncExitStack() as opened:
        pool = await opened.enter_async_context(open_pool(found.database_url, role=None))
        bus = await opened.enter_async_context(Bus.connect(found.nats_url, name="tests"))
        for name, speaker in made.items():
            conversations = await converse(speaker, max(1, runs // len(made)), at_once)
            suites.append(await suite_of(pool, bus, folder / name, speaker.caller.agent_id, conversations))
    return suites


async def converse(speaker: Speaker, runs: int, at_once: int) -> list[str]:
    """The conversations of so many runs."""
    done: list[str] = []

    async def one_after_another() -> None:
        while speaker.runs < runs:
            done.append(await speaker.converse())

    await asyncio.gather(*(one_after_another() for _ in range(at_once)))
    return done


async def run_suite(
    suite: Suite, environ: dict[str, str], *arguments: str
) -> tuple[int, list[CaseResult], str]:
    """Exit code, results and messages of `agentchat eval run`."""
    names = ("AGENTCHAT_", "ANTHROPIC_", "OPENAI_")
    kept: dict[str, str | None] = dict.fromkeys(name for name in os.environ if name.startswith(names))
    given = ["eval", "run", str(suite.folder), *arguments]
    done = await asyncio.to_thread(CliRunner().invoke, app, given, env=kept | environ)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, _results(suite), done.stderr


async def run_embedded(suite: Suite, environ: dict[str, str]) -> list[CaseResult]:
    """In a process of its own, as it takes the signals of one."""
    command = (sys.executable, "-m", "ops.main", "eval", "run", str(suite.folder), "--embedded", "--fresh")
    process = await asyncio.create_subprocess_exec(*command, env=os.environ | environ)
    assert await process.wait() == 0
    return _results(suite)


def _results(suite: Suite) -> list[CaseResult]:
    lines = (suite.folder / "results.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=CaseResult) for line in lines]


def offline_models(stack: RunningStack) -> dict[str, str]:
    """The offline model of a stack, as an environment names the providers."""
    kept = process_record.read(stack.folder.processes)
    assert kept is not None
    entry = next(each for each in kept.processes if each.name == "model-demo")
    assert isinstance(entry.probe, HttpProbe)
    url = f"http://127.0.0.1:{entry.probe.port}"
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": demo.OFFLINE_KEY,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": demo.OFFLINE_KEY,
    }


def differing(results: Sequence[CaseResult]) -> list[CaseResult]:
    """Those that are not what was recorded."""
    return [each for each in results if each.compared is None or each.compared.diverges]


def described(result: CaseResult) -> str:
    """What a result is, and where it differs."""
    run = result.compared
    told = "" if run is None else f"\n{unified(run.before, run.after)}"
    return f"{result.case_id} {result.outcome}: {result.detail or result.diverged_at}{told}"


async def _prove(runs: int) -> bool:
    total, wrong = Counter[str](), 0
    async with (
        running_stack(Counts(orchestrators=2)) as stack,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
    ):
        with temporary_folder() as folder:
            began = time.monotonic()
            suites = await record(stack, http, folder, runs)
            sys.stdout.write(f"recorded in {time.monotonic() - began:.0f} s\n")
            for suite in suites:
                began = time.monotonic()
                _, results, _ = await run_suite(
                    suite, {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}, "--concurrency", "8"
                )
                wrong += _report(suite.folder.name, results, time.monotonic() - began)
                total.update(each.outcome for each in results)
            began = time.monotonic()
            results = await run_embedded(suites[0], offline_models(stack))
            wrong += _report("embedded", results, time.monotonic() - began)
    sys.stdout.write(f"{total.total()} runs: {dict(total)}; {wrong} differ\n")
    return total.total() >= runs and not wrong


def _report(name: str, results: Sequence[CaseResult], seconds: float) -> int:
    wrong = differing(results)
    calls = sum(each.compared.recorded.calls for each in results if each.compared is not None)
    sys.stdout.write(
        f"{name}: {len(results)} runs, {calls} tool calls, {len(wrong)} differ, {seconds:.1f} s\n"
    )
    for each in wrong[:5]:
        sys.stdout.write(f"{described(each)}\n")
    sys.stdout.flush()
    return len(wrong)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    sys.exit(0 if asyncio.run(_prove(parser.parse_args().runs)) else 1)
