"""Clients that generators make of /openapi.json: they are generated without a warning, compile, and their
calls run.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import installed
from tests.system.calling import Caller

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

QUESTION = "Where is my order ORD-1001?"
_HERE = Path(__file__).parent / "generated_clients"


async def test_generated_python_client_has_every_operation(caller: Caller, tmp_path: Path) -> None:
    python = Path(await installed.python_locked(_HERE))
    served = await caller.http.get(f"{caller.base_url}/openapi.json")
    await _generate(python, served.json(), tmp_path / "generated")
    assert (tmp_path / "generated" / "api" / "admin").is_dir()
    shutil.copy(_HERE / "calls.py", tmp_path)
    results = await installed.run_json(tmp_path, str(python), "calls.py", QUESTION=QUESTION, **caller.environ)
    _check(results, await caller.messages(results["conversation"]))


async def test_a_generated_typescript_client_compiles_and_its_calls_run(
    caller: Caller, tmp_path: Path
) -> None:
    installed_in = await installed.node_packages(_HERE)
    served = await caller.http.get(f"{caller.base_url}/openapi.json")
    (tmp_path / "openapi.json").write_text(served.text)
    for name in ("calls.ts", "package.json"):
        shutil.copy(_HERE / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(installed_in / "node_modules")
    await installed.run(
        tmp_path, "node_modules/.bin/openapi-typescript", "openapi.json", "-o", "generated.ts"
    )
    strict = ("--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom")
    await installed.run(tmp_path, "node_modules/.bin/tsc", *strict, "calls.ts")
    results = await installed.run_json(tmp_path, "node", "calls.js", QUESTION=QUESTION, **caller.environ)
    _check(results, await caller.messages(results["conversation"]))


async def _generate(python: Path, described: Any, target: Path) -> None:
    """Raises AssertionError with what the generator warns of."""
    source = target.with_suffix(".json")
    source.write_text(json.dumps(described))
    config = target.with_suffix(".config.json")  # the generator does not know JSON Lines
    config.write_text(json.dumps({"content_type_overrides": {"application/jsonl": "text/plain"}}))
    await installed.run(
        target.parent,
        *(str(python.with_name("openapi-python-client")), "generate", "--meta", "none", "--fail-on-warning"),
        *("--path", str(source), "--output-path", str(target), "--config", str(config)),
        PATH=f"{python.parent}:{os.environ['PATH']}",  # where it looks for ruff
    )
    await installed.run(target.parent, str(python), "-m", "compileall", "-q", str(target))


def _check(results: Any, saved: list[dict[str, Any]]) -> None:
    assert results["said"] == [message["content"] for message in saved]
    assert results["said"][:3] == [QUESTION, results["reply"], "Thanks!"]
    assert results["tools"] == ["track_shipment"]
    assert json.loads(results["last event"])["type"] == "done"
    assert results["title"] == "Generated"
    assert results["found"] == ["Generated"]
    assert "ORD-1001" in results["completion"]
    assert results["models"] > 0
    assert results["refused"] == [400, "invalid_request"]
    assert results["deleted"] == [204, 404, "conversation_not_found"]
