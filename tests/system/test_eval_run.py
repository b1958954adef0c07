"""`agentchat eval run` on the running stack: what answered then answers the same, and is paid for once."""

from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from evals.suite import Suite
from ops.errors import StackError
from ops.main import app
from tests.evals.made_cases import made_suite
from tests.evals.same_version import described, differing, record, run_suite
from tests.harness import RunningStack


@pytest.fixture(scope="module")
async def suites(
    stack: RunningStack, http: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory
) -> list[Suite]:
    """A conversation of each kind: tools and approvals by both providers, retrieval, summaries."""
    return await record(stack, http, tmp_path_factory.mktemp("suites"), runs=5, at_once=1)


async def test_the_version_that_answered_differs_nowhere_and_is_paid_for_once(
    stack: RunningStack, suites: list[Suite]
) -> None:
    environ, runs = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}, 0
    for suite in suites:
        code, results, told = await run_suite(suite, environ)
        assert code == 0, told
        assert not differing(results), "\n".join(map(described, differing(results)))
        runs += len(results)
    assert runs >= 12
    code, again, told = await run_suite(suites[-1], environ)
    assert (code, "0 runs to pay for" in told) == (0, True)
    assert all(each.cached for each in again)
    assert [each.compared for each in again] == [each.compared for each in results]


async def test_another_model_is_found_to_differ(stack: RunningStack, suites: list[Suite]) -> None:
    environ = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    _, results, _ = await run_suite(suites[0], environ, "--model", "demo-load")
    assert differing(results)
    code, results, _ = await run_suite(suites[0], environ, "--model", "no-such-model")
    assert (code, {each.outcome for each in results}) == (1, {"failed"})


async def test_a_broken_prompt_is_a_regression_and_the_pull_request_is_told_why(
    stack: RunningStack, suites: list[Suite], tmp_path: Path
) -> None:
    environ = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    prompt, comment = tmp_path / "prompt.txt", tmp_path / "comment.md"
    prompt.write_text('You are the assistant of the demo shop. Reply only with "NO".')
    code, _, told = await run_suite(suites[0], environ, "--prompt", str(prompt), "--markdown", str(comment))
    assert (code, "regression" in told) == (1, True)
    assert "❌ Regression" in comment.read_text()
    assert "+NO" in comment.read_text()


def test_what_cannot_be_run_is_one_sentence(tmp_path: Path, stack: RunningStack) -> None:
    suite = made_suite(tmp_path / "suite")
    found = stack.environment
    kept = {"AGENTCHAT_RUN_DIR": str(stack.folder.path), "ANTHROPIC_API_KEY": None}
    for arguments, told in (
        ((), "account account-1 has no agent agent-1, or it is disabled"),
        (("--agent", found.agent_id), f"account account-1 has no agent {found.agent_id}"),
        (("--agent-version", "7"), "account account-1 has no agent agent-1, or no version 7 of it"),
        (("--embedded",), "ANTHROPIC_API_KEY is not set"),
        (("--embedded", "--agent", found.agent_id), "leave --agent and --agent-version out"),
        (("--embedded", "--provider", "acme"), "provider: must be one of anthropic, openai"),
        (("--embedded", "--model", " "), "model: is blank"),
        (("--prompt", str(tmp_path)), "cannot be read"),
        (("--prices", str(tmp_path / "none")), "cannot be read"),
        (("--embedded", "--money", "1"), "ANTHROPIC_API_KEY is not set"),
    ):
        done = CliRunner().invoke(app, ["eval", "run", str(suite.folder), *arguments], env=kept)
        assert isinstance(done.exception, StackError), (arguments, done.output)
        assert done.exception.exit_code == 2
        assert told in str(done.exception)
    assert not (suite.folder / ".eval-cache").exists()
