"""The tool log: an MCP server with a tool that reads, one that may be repeated, and one that writes."""

import asyncio
import json

from tests.chaos.plan import TOOLS
from tests.chaos.records import Clock, ToolRun
from tests.chaos.tail import TAG
from tests.tool_runner.scripted import Call, Json, make_tool

_SECONDS = 0.15
_SCHEMA: Json = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The whole message, word for word."}},
    "required": ["text"],
}


def server_key(account: str) -> str:
    return f"server-canary-{account}-91b2aa07"


def list_tools() -> list[Json]:
    return [make_tool(name, schema=_SCHEMA, **hints) for name, hints in TOOLS.items()]


class ToolLog:
    """`runs` are in the order in which they began."""

    def __init__(self, clock: Clock) -> None:
        self.runs: list[ToolRun] = []
        self._clock = clock

    async def on_call(self, call: Call) -> None:
        """Run a tool: it takes a moment, and is done when it begins."""
        given = json.dumps(call.arguments)
        found = TAG.findall(given)  # after messages that had no reply, the last is the one it is about
        key = call.headers.get("authorization", "").removeprefix("Bearer ")
        account = key.removeprefix("server-canary-").partition("-")[0]
        run = ToolRun(
            tool=call.tool, ask=found[-1] if found else "", account=account, at=self._clock.now(), input=given
        )
        self.runs.append(run)
        await asyncio.sleep(_SECONDS)
        await call.send_text(json.dumps({"done": call.tool, "by": f"[[acct:{account}]]"}))
        run.ended, run.answered = self._clock.now(), True
