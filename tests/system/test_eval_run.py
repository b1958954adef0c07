"""`agentchat eval run` on the running stack: what answered then answers the same, and is paid for once."""

import asyncio
import os
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from agentchat.evals.case_results import CaseResult
from agentchat.evals.suite import RESULTS, Suite, read_lines
from agentchat.evals.text_diff import diff_runs
from agentchat.ops.errors import StackError
from agentchat.ops.main import app
from tests.evals.made_cases import make_suite
from tests.evals.shop_conversations import record_suites
from tests.harness import RunningStack


@pytest.fixture(scope="module")
async def suites(
    stack: RunningStack, http: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory
) -> list[Suite]:
    """A conversation of each kind: tools and approvals by both providers, retrieval, summaries."""
    return await record_suites(stack, http, tmp_path_factory.mktemp("suites"), runs=5)


async def run_suite(stack: RunningStack, suite: Suite, *arguments: str) -> tuple[int, list[CaseResult], str]:
    """Exit code, results and messages of `agentchat eval run`."""
    kept: dict[str, str | None] = dict.fromkeys(name for name in os.environ if name.startswith("AGENTCHAT_"))
    environ = kept | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    given = ["eval", "run", str(suite.folder), *arguments]
    done = await asyncio.to_thread(CliRunner().invoke, app, given, env=environ)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, read_lines(suite.folder / RESULTS, CaseResult), done.stderr


def describe_differences(results: list[CaseResult]) -> list[str]:
    """Those that are not what was recorded, and how they differ."""
    return [
        f"{each.case_id} {each.outcome} {each.detail}\n"
        + ("" if each.compared is None else diff_runs(each.compared.before, each.compared.after))
        for each in results
        if each.compared is None or each.compared.diverges
    ]


async def test_same_version_differs_nowhere_and_is_paid_once(
    stack: RunningStack, suites: list[Suite]
) -> None:
    runs = 0
    for suite in suites:
        code, results, told = await run_suite(stack, suite)
        assert not describe_differences(results), "\n".join(describe_differences(results))
        assert code == 0, told
        runs += len(results)
    assert runs >= 12
    code, again, told = await run_suite(stack, suites[-1])
    assert (code, "about 0 tokens" in told) == (0, True)
    assert again == results


async def test_the_suites_own_agent_answers_where_nobody_has_it(
    stack: RunningStack, suites: list[Suite]
) -> None:
    """It is stored for the run alone; answers that were paid for are kept for it too."""
    suite = suites[0]
    code, results, told = await run_suite(stack, suite, "--from-file", "--fresh")
    assert (code, describe_differences(results)) == (0, []), told


async def test_broken_prompt_is_a_regression_with_a_reason(
    stack: RunningStack, suites: list[Suite], tmp_path: Path
) -> None:
    prompt, comment = tmp_path / "prompt.txt", tmp_path / "comment.md"
    prompt.write_text('You are the assistant of the demo shop. Reply only with "NO".')
    code, _, told = await run_suite(stack, suites[0], "--prompt", str(prompt), "--markdown", str(comment))
    assert (code, "regression" in told) == (1, True)
    assert "❌ Regression" in comment.read_text()
    assert "+NO" in comment.read_text()


def test_what_cannot_be_run_is_one_sentence(tmp_path: Path, stack: RunningStack) -> None:
    suite = make_suite(tmp_path / "suite")
    found = stack.environment
    kept = {"AGENTCHAT_RUN_DIR": str(stack.folder.path), "AGENTCHAT_ADMIN_URL": ""}
    for arguments, told in (
        ((), "account account-1 has no agent agent-1, or it is disabled"),
        (("--agent", found.agent_id), f"account account-1 has no agent {found.agent_id}"),
        (("--agent-version", "7"), "account account-1 has no agent agent-1, or no version 7 of it"),
        (("--from-file", "--agent", found.agent_id), "leave --agent and --agent-version out"),
        (("--model", " "), "--model is blank"),
        (("--prompt", str(tmp_path)), "cannot be read"),
        (("--prices", str(tmp_path / "none")), "cannot be read"),
    ):
        done = CliRunner().invoke(app, ["eval", "run", str(suite.folder), *arguments], env=kept)
        assert isinstance(done.exception, StackError), (arguments, done.output)
        assert done.exception.exit_code == 2
        assert told in str(done.exception)
    assert not (suite.folder / ".eval-cache").exists()
