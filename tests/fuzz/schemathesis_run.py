"""One run of schemathesis over the document that a gateway serves, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

_CONFIG = Path(__file__).with_name("schemathesis.toml")
_ONE_CALLER = """
[auth.openapi]
key = { api_key = "${FUZZ_API_KEY}" }
admin = { bearer = "${FUZZ_ADMIN_TOKEN}" }

[parameters]
"header.X-Agent-Id" = "${FUZZ_AGENT_ID}"
"""
_PEERS = """
[auth.wfc]
path = "peers.json"
peers = ["caller", "peer"]
"""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What is tried. The first key is of an account without limits; both agents answer at once."""

    base_url: str
    api_key: str
    agent_id: str
    peer_key: str
    peer_agent_id: str
    admin_token: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """`said` is what schemathesis printed, each failure with a command that repeats it."""

    passed: bool
    cases: int
    said: str


def _with_event_schemas(document: Any) -> Any:
    """The document with the schemas of events where schemathesis looks for them."""
    for operations in document["paths"].values():
        for operation in operations.values():
            for answer in operation["responses"].values():
                for media in answer.get("content", {}).values():
                    media["schema"] = media.pop("x-itemSchema", media["schema"])
    return document


def run_schemathesis(
    target: Target, folder: Path, options: Sequence[str], *, seed: int, peers: bool = False
) -> Outcome:
    """Every check it knows; `options` choose operations, phases and the number of examples.

    With `peers` two accounts ask in turn, and neither may come to what is the other's.
    """
    config, report = folder / f"schemathesis-{seed}.toml", folder / f"schemathesis-{seed}.json"
    config.write_text(_CONFIG.read_text() + (_PEERS if peers else _ONE_CALLER))
    (folder / "peers.json").write_text(json.dumps(_peers(target)))
    described = folder / f"openapi-{seed}.json"
    served = httpx.get(f"{target.base_url}/openapi.json", timeout=60)  # the first request has it made
    described.write_text(json.dumps(_with_event_schemas(served.json())))
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(config)),
        *("run", str(described), "--url", target.base_url, "--checks", "all", "--no-color"),
        *("--seed", str(seed), "--report-json-path", str(report), *options),
    ]
    environ = os.environ | {
        "FUZZ_API_KEY": target.api_key,
        "FUZZ_AGENT_ID": target.agent_id,
        "FUZZ_ADMIN_TOKEN": target.admin_token,
    }
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    cases = json.loads(report.read_bytes())["test_cases"]["generated"] if report.exists() else 0
    return Outcome(passed=done.returncode == 0, cases=cases, said=done.stdout + done.stderr)


def _peers(target: Target) -> dict[str, Any]:
    """In the form of Web Fuzzing Commons."""

    def user(name: str, key: str, agent_id: str) -> dict[str, Any]:
        headers = {"X-Api-Key": key, "X-Agent-Id": agent_id}
        return {"name": name, "fixedHeaders": [{"name": n, "value": value} for n, value in headers.items()]}

    first = user("caller", target.api_key, target.agent_id)
    return {"auth": [first, user("peer", target.peer_key, target.peer_agent_id)]}
