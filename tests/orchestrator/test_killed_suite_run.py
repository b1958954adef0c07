"""`agentchat eval run` in a process that is killed: what was answered by then is not asked again."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from contracts import frames
from tests.evals.same_version import run_suite
from tests.evals.shop_conversations import suite_of
from tests.orchestrator.given import SECONDS, SECRET, World
from tests.orchestrator.scripted import Exchange, says

_AT_ONCE = 2
_BEFORE = 4
"""Answers before the kill."""


async def test_a_run_that_is_killed_pays_for_no_answer_twice(working: World, tmp_path: Path) -> None:
    working.will(says("Yes."))
    agent_id, questions = await working.agent(), [f"Question {number}?" for number in range(8)]
    conversations = []
    for question in questions:
        asked = await working.ask(agent_id, question)
        await asked.until(frames.Completed)
        conversations.append(asked.request.conversation_id)
    suite = await suite_of(working.pool, working.bus, tmp_path / "suite", agent_id, conversations)
    answered: list[str] = []
    held, killed = asyncio.Semaphore(0), asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        if len(answered) == _BEFORE and not killed.is_set():
            held.release()
            await killed.wait()
            await exchange.status(400, "invalid_request_error")
            return
        answered.append(exchange.last_text)
        await says("Yes.")(exchange)

    working.will(answer)
    environ = {
        "AGENTCHAT_DATABASE_URL": working.settings.database_url,
        "AGENTCHAT_NATS_URL": working.settings.nats_url,
        "AGENTCHAT_SECRET_KEY": SECRET,
        "AGENTCHAT_RUN_DIR": str(tmp_path / "none"),
    }
    command = (sys.executable, "-m", "ops.main", "eval", "run", str(suite.folder))
    process = await asyncio.create_subprocess_exec(
        *command, "--concurrency", str(_AT_ONCE), env=os.environ | environ
    )
    async with asyncio.timeout(SECONDS):
        for _ in range(_AT_ONCE):  # with so many under way, all others have been stored
            await held.acquire()
    process.kill()
    assert await process.wait() == -signal.SIGKILL
    assert len(answered) == _BEFORE
    assert not (suite.folder / "results.jsonl").exists()
    killed.set()

    code, results, told = await run_suite(suite, environ)

    assert (code, f"{_BEFORE} of them paid for before" in told) == (0, True), told
    assert [each.outcome for each in results] == ["completed"] * len(questions)
    assert sum(each.cached for each in results) == _BEFORE
    assert sorted(answered) == questions, "each question was answered once"
    assert not list(suite.folder.glob("*.partial")), "what the killed process was writing is gone"
