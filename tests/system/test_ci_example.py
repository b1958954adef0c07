"""examples/ci as GitHub runs it: the steps of its workflow, in a copy of the folder, on the offline model."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
import yaml

from evals.case_file import change_case
from evals.cases import Case
from evals.results import CaseResult
from evals.suite import Suite, read_suite, write_agent
from ops import demo
from tests.evals.same_version import offline_models
from tests.harness import RunningStack

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci"
_NOT_TRIED = {"Install"}
_SECRET = re.compile(r"\$\{\{ secrets\.\w+ \}\}")
_TRACKED = "213dd28742ec6a08a804021073a20ee6"
"""A case of the suite, which calls track_shipment once."""
_RULE = re.compile(r"\n\nEnd each reply with .*")


def _workflow() -> dict[Any, Any]:
    return dict(yaml.safe_load((EXAMPLE / "prompts.yaml").read_text()))


def _run_job(checkout: Path, environ: dict[str, str]) -> tuple[int, str]:
    """The exit code of the first step that fails, and what all of them printed.

    Where the environment names a running stack, it answers instead of a service of the job's own.
    """
    code, printed = 0, ""
    for step in _workflow()["jobs"]["evals"]["steps"]:
        is_tried = "run" in step and step["name"] not in _NOT_TRIED
        if not is_tried or (code and step.get("if") != "always()"):
            continue
        command = step["run"].replace("--embedded", "") if "AGENTCHAT_RUN_DIR" in environ else step["run"]
        secrets = {name: _SECRET.sub(demo.OFFLINE_KEY, value) for name, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=checkout,
            env=secrets | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        code, printed = code or done.returncode, printed + done.stdout
    return code, printed


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A customer's repository."""
    ignored = shutil.ignore_patterns(".eval-cache", "results.jsonl")
    return Path(shutil.copytree(EXAMPLE, tmp_path / "repository", ignore=ignored))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a job of GitHub."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    path = f"{sys.prefix}/bin:{os.environ['PATH']}"
    return {**kept, "PATH": path, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}


def _forget_a_result(suite: Suite, stack: RunningStack) -> str:
    """The case that is returned lacks the result of its call, which is harmless, at the stack's server."""
    agent = msgspec.to_builtins(suite.agent)
    agent["settings"]["mcp_servers"][0]["url"] = f"{stack.environment.mcp_base_url}/api/mcp"
    write_agent(suite.folder, msgspec.convert(agent, type(suite.agent)))
    settings = suite.folder / "suite.yaml"
    live = "unrecorded: live\n  harmless: [track_shipment]"
    settings.write_text(settings.read_text().replace("unrecorded: stop", live))

    def changed(case: Case) -> Case:
        kept = tuple(each for each in case.events if b'"type":"tool_returned.v1"' not in bytes(each))
        return msgspec.structs.replace(case, events=kept)

    assert change_case(suite.cases, _TRACKED, changed)
    return _TRACKED


def test_a_harmless_prompt_passes_in_a_service_of_the_jobs_own(
    stack: RunningStack, checkout: Path, environ: dict[str, str]
) -> None:
    prompt, suite = checkout / "prompt.txt", read_suite(checkout / "suite")
    prompt.write_text(prompt.read_text().replace("Answer briefly and in a friendly", "Be brief, in a kind"))
    forgetful = _forget_a_result(suite, stack)
    code, printed = _run_job(checkout, environ | offline_models(stack))
    assert code == 0, printed
    lines = (suite.folder / "results.jsonl").read_bytes().splitlines()
    results = [msgspec.json.decode(line, type=CaseResult) for line in lines]
    called = {
        each.case_id for each in results if each.compared and any(c.live for c in each.compared.after.calls)
    }
    assert called == {forgetful}, "its tool was called, and no other one"
    assert "No regression" in Path(environ["GITHUB_STEP_SUMMARY"]).read_text()
    assert not [*ElementTree.parse(checkout / "verdict.xml").iter("failure")]


def test_a_prompt_that_forgets_a_rule_is_blocked_and_the_pull_request_is_told_why(
    stack: RunningStack, checkout: Path, environ: dict[str, str]
) -> None:
    prompt = checkout / "prompt.txt"
    prompt.write_text(_RULE.sub("", prompt.read_text()))
    running = {"AGENTCHAT_RUN_DIR": str(stack.folder.path)}
    code, printed = _run_job(checkout, environ | running)
    assert code == 1, printed
    told = Path(environ["GITHUB_STEP_SUMMARY"]).read_text()
    assert "❌ Regression" in told
    assert "An order can be cancelled until it is shipped." in told
    assert [*ElementTree.parse(checkout / "verdict.xml").iter("failure")]


def test_the_workflow_runs_for_the_files_that_it_judges() -> None:
    paths = _workflow()[True]["pull_request"]["paths"]  # YAML 1.1 reads the key `on` as true
    assert paths == ["prompt.txt", "suite/**"]
    for each in paths:
        assert list(EXAMPLE.glob(each))
