"""examples/ci as GitHub runs it: the steps of its workflow, in a copy of the folder, on the offline model."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.harness import RunningStack

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci"
_NOT_TRIED = {"Install"}
_START = "Start the service"
_SECRET = re.compile(r"\$\{\{ secrets\.\w+ \}\}")
_RULE = re.compile(r"\n\nEnd each reply with .*")


def _workflow() -> dict[Any, Any]:
    return dict(yaml.safe_load((EXAMPLE / "prompts.yaml").read_text()))


class Job:
    """Runs the steps; what one of them has started goes on until the job ends."""

    def __init__(self, checkout: Path, environ: dict[str, str]) -> None:
        self._checkout = checkout
        self._environ = environ
        self._groups: list[int] = []

    def run(self, *, without: str = "") -> tuple[int, str]:
        """The exit code of the first step that fails, and what all of them printed."""
        code, printed = 0, ""
        for step in _workflow()["jobs"]["evals"]["steps"]:
            is_tried = "run" in step and step["name"] not in (*_NOT_TRIED, without)
            if not is_tried or (code and step.get("if") != "always()"):
                continue
            secrets = {name: _SECRET.sub("", value) for name, value in step.get("env", {}).items()}
            process = subprocess.Popen(
                ["bash", "-e", "-c", step["run"]],
                cwd=self._checkout,
                env={**secrets, **self._environ},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            self._groups.append(process.pid)
            output, _ = process.communicate(timeout=180)
            code, printed = code or process.returncode, printed + output
        return code, printed

    def end(self) -> None:
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGTERM)
            except ProcessLookupError:
                continue


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
    ports = {"AGENTCHAT_PORT": "0", "AGENTCHAT_MCP_PORT": "0"}
    return {**kept, **ports, "PATH": path, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}


@pytest.fixture
def job(checkout: Path, environ: dict[str, str]) -> Iterator[Job]:
    found = Job(checkout, environ)
    yield found
    found.end()


@pytest.mark.slow
def test_a_harmless_prompt_passes_in_a_service_of_the_jobs_own(
    job: Job, checkout: Path, environ: dict[str, str]
) -> None:
    prompt = checkout / "prompt.txt"
    prompt.write_text(prompt.read_text().replace("Answer briefly and in a friendly", "Be brief, in a kind"))
    code, printed = job.run()
    assert code == 0, printed
    assert "No regression" in Path(environ["GITHUB_STEP_SUMMARY"]).read_text()
    assert not [*ElementTree.parse(checkout / "verdict.xml").iter("failure")]


@pytest.mark.slow
def test_prompt_that_forgets_a_rule_blocks_the_pull_request(
    stack: RunningStack, checkout: Path, environ: dict[str, str]
) -> None:
    prompt = checkout / "prompt.txt"
    prompt.write_text(_RULE.sub("", prompt.read_text()))
    job = Job(checkout, environ | {"AGENTCHAT_RUN_DIR": str(stack.folder.path)})
    code, printed = job.run(without=_START)
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
