"""`agentchat eval collect` on the running system: the tools and passages that the log does not have."""

import asyncio
import os
from pathlib import Path

import msgspec
from typer.testing import CliRunner

from agentchat.evals.case_results import CaseResult
from agentchat.evals.cases import Case, read_cases
from agentchat.evals.suite import read_suite
from agentchat.ops.main import app
from tests.harness import RunningStack
from tests.system.calling import Caller


async def evals(stack: RunningStack, *arguments: str) -> None:
    """`agentchat eval ...` on the stack; it has to end well."""
    kept = {name: None for name in os.environ if name.startswith("AGENTCHAT_")}
    environ = kept | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    done = await asyncio.to_thread(CliRunner().invoke, app, ["eval", *arguments], env=environ)
    assert done.exit_code == 0, done.output + repr(done.exception)


async def collect_case(stack: RunningStack, folder: Path, agent_id: str, words: str) -> Case:
    """The one run that asked with these words; the projector is an instant after."""
    async with asyncio.timeout(30):
        while True:
            await evals(stack, "collect", "-o", str(folder), "--agent", agent_id, "--text", words)
            if found := read_cases(read_suite(folder).cases):
                (case,) = found
                return case


async def test_redacted_case_has_its_tools_and_runs_again(
    stack: RunningStack, caller: Caller, tmp_path: Path
) -> None:
    await caller.chat("Where is order ORD-1001? Write to zebra@finch.example.")

    case = await collect_case(stack, tmp_path / "suite", stack.environment.agent_id, "zebra")

    assert case.message == "Where is order ORD-1001? Write to person1@example.com."
    assert case.slices["tools"] == "find_customer,track_shipment"
    (offered,) = [each for each in case.offered if each.name == "find_customer"]
    assert offered.input_schema["properties"]
    inputs = {call.name: call.input for each in case.fold_run().rounds for call in each.calls}
    assert inputs["find_customer"] == {"query": "person1@example.com"}
    written = b"".join(path.read_bytes() for path in (tmp_path / "suite").iterdir())
    assert b"zebra@" not in written

    await evals(stack, "run", str(tmp_path / "suite"))
    result = msgspec.json.decode((tmp_path / "suite" / "results.jsonl").read_bytes(), type=CaseResult)
    assert result.compared is not None
    assert result.compared.same_tools, "tools are called with what the redacted question has"
    assert result.compared.missed == ()
    assert result.compared.same_answer


async def test_a_case_has_the_passages_that_its_run_found(
    stack: RunningStack, policies: Caller, tmp_path: Path
) -> None:
    await policies.chat("How many days do I have to return a zebra blanket?")

    agent_id = stack.environment.retrieval_agent_id
    case = await collect_case(stack, tmp_path / "suite", agent_id, "zebra blanket")

    sources = case.fold_run().sources
    assert sources
    assert set(case.passages) == {source.id for source in sources}
    assert any(len(case.passages[source.id]) > len(source.snippet) for source in sources)
