"""What `agentchat up` prints once everything is ready."""

import os
from pathlib import Path

from ops.environment import Environment
from ops.folder import RunFolder

_MESSAGE = "Where is order ORD-1006, and what else would suit customer CUST-001?"


def banner(folder: RunFolder, environment: Environment, seconds: float) -> str:
    """Addresses, and a request to paste for each endpoint."""
    return f"""
Agent Chat Service is up ({seconds:.1f} s).

  chat API     {", ".join(environment.gateway_urls)}
  try it out   {environment.base_url}/docs, or .venv/bin/agentchat chat
  tool server  {environment.mcp_base_url}/api/mcp
  keys, URLs   {_shown(folder.demo_env)}
  logs         {_shown(folder.logs)}/

One answer as JSON:

{_curl(environment, "/v1/chat")}

The same as a stream:

{_curl(environment, "/v1/chat/stream", "-N ")}

Ctrl-C stops everything.
"""


def _curl(environment: Environment, path: str, options: str = "") -> str:
    return f"""\
curl {options}-sS {environment.base_url}{path} \\
  -H 'X-Api-Key: {environment.api_key}' \\
  -H 'X-Agent-Id: {environment.agent_id}' \\
  -H 'Content-Type: application/json' \\
  -d '{{"message": "{_MESSAGE}"}}'"""


def _shown(path: Path) -> str:
    """Relative where that is shorter."""
    relative = os.path.relpath(path)
    return relative if not relative.startswith("..") else str(path)
