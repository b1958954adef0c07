"""The code blocks of README and docs run, on a running system, as a reader would run them.

A block that cannot is marked in the line above it, `<!-- not run: why -->`, and only parsed. The shell
blocks of a page are run in their order, by one shell: they set variables for each other.
"""

import ast
import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.harness import RunningStack
from tests.support.node import require_program
from tests.system.calling import Caller

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TREES = ("deploy", "docs", "examples", "libs", "services")
PAGES = [ROOT / "README.md", *(page for tree in TREES for page in sorted((ROOT / tree).rglob("*.md")))]
_BLOCK = re.compile(r"^(<!-- not run: .+ -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHELL = """
set -euo pipefail
curl() { command curl --fail-with-body "$@"; }
. .run/demo.env
"""


class Block(NamedTuple):
    """A fenced block that names its language. `number` counts those of its page."""

    page: str
    number: int
    is_run: bool
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


def _blocks() -> Iterator[Block]:
    for path in PAGES:
        for number, (mark, language, text) in enumerate(_BLOCK.findall(path.read_text()), 1):
            yield Block(str(path.relative_to(ROOT)), number, not mark, language, text)


BLOCKS = list(_blocks())
SHELL_PAGES = sorted({each.page for each in BLOCKS if each.language == "sh" and each.is_run})


@pytest.fixture
def reader(stack: RunningStack, tmp_path: Path) -> dict[str, str]:
    """The environment of who has cloned the repository and started the stack; its folder is `tmp_path`."""
    found = stack.environment
    (tmp_path / ".run").symlink_to(stack.folder.path)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AGENTCHAT_")},
        "PATH": f"{sys.prefix}/bin:{os.environ['PATH']}",
        "AGENTCHAT_RUN_DIR": str(stack.folder.path),
        "AGENTCHAT_BASE_URL": found.base_url,
        "AGENTCHAT_API_KEY": found.api_key,
        "AGENTCHAT_AGENT_ID": found.agent_id,
        "ANALYST_DATABASE_URL": found.analyst_database_url,
    }


async def _run(folder: Path, environment: dict[str, str], *command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(100):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()[-3000:]


@pytest.mark.parametrize("page", SHELL_PAGES)
async def test_the_shell_blocks_of_a_page_run(page: str, reader: dict[str, str], tmp_path: Path) -> None:
    texts = [each.text for each in BLOCKS if each.page == page and each.language == "sh" and each.is_run]
    await _run(tmp_path, reader, "bash", "-c", _SHELL + "\n".join(texts))


@pytest.mark.parametrize(
    "block", [each for each in BLOCKS if each.language == "python" and each.is_run], ids=str
)
async def test_a_python_block_runs(
    block: Block, reader: dict[str, str], tmp_path: Path, stack: RunningStack, caller: Caller
) -> None:
    await caller.chat("Hello.")  # so that the log is not empty
    log = {"AGENTCHAT_DATABASE_URL": stack.environment.database_url}
    await _run(tmp_path, reader | log, sys.executable, "-c", block.text)


@pytest.mark.parametrize("block", BLOCKS, ids=str)
async def test_a_block_can_be_parsed(block: Block, tmp_path: Path) -> None:
    match block.language:
        case "sh":
            await _run(tmp_path, dict(os.environ), "bash", "-n", "-c", block.text)
        case "python":
            ast.parse(re.sub(r"\bawait ", "", block.text))
        case "json":
            json.loads(block.text)
        case "yaml":
            assert yaml.safe_load(block.text)
        case "javascript":
            node = require_program("node")
            module = tmp_path / "block.mjs"
            module.write_text(block.text)
            await _run(tmp_path, dict(os.environ), node, "--check", str(module))
        case "sql" | "nginx":
            pass  # tests/system/test_recipes.py runs the SQL
        case other:
            pytest.fail(f"nothing here reads {other}")
