"""Records the histories of this folder anew: `python -m tests.histories.record FOLDER`, takes half a minute.

It starts a stack of its own, has conversations with it, kills what has to die, and writes for each history
NAME.jsonl, an export of its conversations, and NAME.heard.json, what the callers received, byte for byte.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from agentchat.conversations.conversation_export import ExportWriter, load_exportable_events
from agentchat.conversations.event_store.event_log import Log, open_log
from agentchat.ops import demo
from agentchat.ops.settings import ProcessCounts
from tests.gateway.admin import AdminClient
from tests.harness import RunningStack, running_stack

_SMALL = {"context_window": 1000, "at_share": 0.1, "keep_runs": 0}
AGENTS: dict[str, dict[str, Any]] = {
    "slow": {"model": "demo-load?deltas=40&delay_ms=50"},
    "endless": {"model": "demo-load?deltas=200&delay_ms=50"},
    "breaking": {"model": "demo-echo?fail=401&fail_after=2&deltas=4&delay_ms=60&say=This breaks off"},
    "echo": {"model": "demo-echo"},
    "forgetful": {"model": "demo-shop-1", "compaction": _SMALL},
    "compacted": {"model": "demo-shop-1", "compaction": {"by": "provider", **_SMALL}},
    "warned": {
        "model": "demo-echo",
        "mcp_servers": [{"name": "gone", "url": "http://127.0.0.1:9/mcp"}],
        "on_tool_server_error": "continue",
    },
}


class Recorder:
    """Talks with a stack, and keeps what it hears."""

    def __init__(self, stack: RunningStack, http: httpx.AsyncClient, log: Log, folder: Path) -> None:
        self.stack = stack
        self.env = stack.environment
        self._http = http
        self._log = log
        self._folder = folder
        self._heard: list[dict[str, str]] = []
        self._agents = {"shop": self.env.agent_id, "policies": self.env.retrieval_agent_id}

    async def make_agents(self) -> None:
        """Those of AGENTS, in the account without limits."""
        server = {"name": "shop", "url": f"{self.env.mcp_base_url}/api/mcp"}
        tools = {"waiting": {"model": "demo-shop-1?delay_ms=200", "mcp_servers": [server]}}
        admin = AdminClient(self._http, self.env.base_url, self.env.admin_token)
        common = {"account_id": demo.LOAD_ACCOUNT_ID, "provider_key": "offline"}
        for name, agent in (AGENTS | tools).items():
            made = await admin.post("/agents", common | {"name": name} | agent)
            self._agents[name] = made["id"]

    async def chat(
        self,
        agent: str,
        message: str,
        form: str = "form1",
        on_event: Callable[[int, str], Awaitable[None]] | None = None,
        **body: Any,
    ) -> str:
        """One turn, heard to its end; returns the conversation. `on_event`: at each, with the trace."""
        key = self.env.load_api_key if agent not in ("shop", "policies") else self.env.api_key
        headers = {"X-Api-Key": key, "X-Agent-Id": self._agents[agent], "X-Stream-Form": form[-1]}
        path = "/v1/chat/stream"
        if form == "json":
            path = "/v1/chat"
            del headers["X-Stream-Form"]
        heard, count = b"", 0
        sent = {"message": message, **body}
        async with self._http.stream(
            "POST", self.env.base_url + path, json=sent, headers=headers
        ) as response:
            trace_id = response.headers["x-trace-id"]
            async for chunk in response.aiter_bytes():
                heard += chunk
                for _ in range(chunk.count(b"\n\n")):
                    count += 1
                    if on_event is not None:
                        await on_event(count, trace_id)
        self._heard.append({"trace_id": trace_id, "form": form, "body": heard.decode()})
        first = heard.partition(b"\n\n")[0].removeprefix(b"data: ")
        conversation_id: str = body.get("conversation_id") or json.loads(first)["conversation_id"]
        return conversation_id

    async def complete(self, agent: str, *said: str) -> str:
        """A completion for what was said in turn, the user's first; returns the conversation."""
        roles = ("user", "assistant") * len(said)
        messages = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]
        headers = {"Authorization": f"Bearer {self.env.load_api_key}", "X-Conversation-Id": "recorded"}
        response = await self._http.post(
            f"{self.env.base_url}/openai/v1/chat/completions",
            json={"model": self._agents[agent], "messages": messages},
            headers=headers,
        )
        assert response.is_success, response.text
        trace_id = response.headers["x-trace-id"]
        self._heard.append({"trace_id": trace_id, "form": "openai", "body": response.text})
        return str(response.headers["x-conversation-id"])

    async def allow(self, message: str, thread: str | None, **decision: Any) -> str:
        """One turn of the shop's agent, whose tool call is decided about; returns the conversation."""
        base, key = self.env.base_url, {"X-Api-Key": self.env.api_key}
        named = {"X-Agent-Id": self._agents["shop"], "Idempotency-Key": message.replace(" ", "-")}
        asked: dict[str, Any] = {
            "json": {"message": message, "conversation_id": thread},
            "headers": key | named,
        }
        waiting = await self._http.post(f"{base}/v1/chat", **asked)
        (approval,) = waiting.json()["approvals"]
        address = f"{base}/v1/approvals/{approval['id']}/decision"
        assert (await self._http.post(address, json=decision, headers=key)).is_success
        reply = await self._http.post(f"{base}/v1/chat", **asked)
        self._heard.append({"trace_id": waiting.json()["trace_id"], "form": "json", "body": reply.text})
        return str(reply.json()["conversation_id"])

    async def show_map(self, message: str) -> str:
        """Send a message whose client runs a tool, and the tool's result; return the conversation."""
        base, headers = self.env.base_url, {"X-Api-Key": self.env.api_key, "X-Agent-Id": self._agents["shop"]}
        schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
        tool = {"name": "show_map", "description": "Show a place", "input_schema": schema}
        body = {"message": message, "client_tools": [tool]}
        waiting = (await self._http.post(f"{base}/v1/chat", json=body, headers=headers)).json()
        trace_id, (call,) = waiting["trace_id"], waiting["client_tool_calls"]
        results = {"results": [{"id": call["id"], "output": {"shown": True}}]}
        path = f"{base}/v1/chat/{trace_id}/tool_results"
        reply = await self._http.post(path, json=results, headers=headers)
        self._heard.append({"trace_id": trace_id, "form": "json", "body": reply.text})
        return str(reply.json()["conversation_id"])

    async def steer(self, agent: str, message: str, thread: str) -> None:
        """Send a message that joins the run under way, whose answer is kept once."""
        headers = {"X-Api-Key": self.env.load_api_key, "X-Agent-Id": self._agents[agent]}
        body = {"message": message, "conversation_id": thread, "on_busy": "steer"}
        reply = await self._http.post(f"{self.env.base_url}/v1/chat", json=body, headers=headers)
        assert reply.is_success, reply.text

    async def fork(self, thread: str, **described: Any) -> str:
        """A fork of a conversation of the shop's, which is then described; returns it."""
        address, key = f"{self.env.base_url}/v1/conversations", {"X-Api-Key": self.env.api_key}
        made = await self._http.post(f"{address}/{thread}/fork", headers=key)
        assert made.is_success, made.text
        fork = str(made.json()["conversation_id"])
        assert (await self._http.patch(f"{address}/{fork}", json=described, headers=key)).is_success
        self.forget()
        return fork

    async def ask(self, method: str, path: str) -> None:
        """Of the account without limits."""
        headers = {"X-Api-Key": self.env.load_api_key}
        response = await self._http.request(method, self.env.base_url + path, headers=headers)
        assert response.is_success, response.text

    async def rate(self, thread: str, **given: Any) -> None:
        """Feedback of Ada's on the newest reply to the shop's account; without any it is taken back."""
        base, key = self.env.base_url, {"X-Api-Key": self.env.api_key}
        messages = await self._http.get(f"{base}/v1/conversations/{thread}/messages", headers=key)
        address = f"{base}/v1/messages/{messages.json()['data'][-1]['trace_id']}/feedback"
        if given:
            body = {"on_behalf_of": "ada", **given}
            response = await self._http.post(address, json=body, headers=key)
        else:
            response = await self._http.delete(address, params={"on_behalf_of": "ada"}, headers=key)
        assert response.is_success, response.text

    async def write(self, name: str, *conversation_ids: str) -> None:
        """The history of these conversations, and what was heard since the last one."""
        with (self._folder / f"{name}.jsonl").open("wb") as file:
            writer = ExportWriter(file, exported_at=datetime.now(UTC).isoformat(timespec="seconds"))
            for conversation_id in conversation_ids:
                writer.add((await load_exportable_events(self._log, conversation_id)).entries)
            writer.end()
        heard = self._folder / f"{name}.heard.json"
        heard.write_text(json.dumps(self._heard, indent=1) + "\n")
        self.forget()

    def forget(self) -> None:
        """What was heard until now is of no history."""
        self._heard = []


async def record_all(recorder: Recorder) -> None:
    """Every history but the corrupt one, which is `shop` with a line that somebody has changed."""
    chat = recorder.chat
    question = "Where is order ORD-1006, and what else would suit customer CUST-001?"
    thread = await chat("shop", question, "form2")
    await chat("shop", "And ORD-1001?", "json", conversation_id=thread)
    await chat("shop", "Thanks!", prompt="You answer in one word.", conversation_id=thread)
    await recorder.write("shop", thread)

    country, home = {"country": "AT"}, "Change the address of ORD-1030 to Seeweg 14, 6020 Innsbruck"
    thread = await recorder.allow(home, None, decision="approved", input=country)
    await recorder.allow("And ORD-1031 too: " + home.replace("1030", "1031"), thread, decision="denied")
    await recorder.write("elicitation", thread)

    changed = {"order_id": "ORD-1030", "reason": "by phone"}
    thread = await recorder.allow("Cancel ORD-1030", None, decision="approved", input=changed)
    await recorder.allow("Cancel ORD-1031", thread, decision="denied", reason="Too late.")
    await recorder.write("approvals", thread)

    thread = await recorder.allow("Cancel ORD-1032", None, decision="approved")
    thread = await recorder.fork(thread, title="A cancelled order", metadata={"desk": "orders"})
    await recorder.allow("Cancel ORD-1033", thread, decision="denied", reason="Too late.")
    await recorder.write("forked", thread)

    await recorder.write("client_tool", await recorder.show_map("show_map of Berlin"))
    await record_rated(recorder)
    await record_busy(recorder)
    await recorder.write("warned", await recorder.complete("warned", "Hello"))

    thread = await chat("policies", "May I return shoes that I have worn?")
    await chat("policies", "And how long does a refund take?", "json", conversation_id=thread)
    await recorder.write("sources", thread)

    thread = await chat("breaking", "Say something.")
    await chat("echo", "Go on \u2028 with \u00e4, \U0001f600 and \u0085.", "form2", conversation_id=thread)
    await recorder.write("failed", thread)

    thread = await recorder.complete("echo", "Hello", "Hello! How can I help?", "Where is my order?")
    await chat("echo", "And now?", conversation_id=thread)
    await recorder.write("seeded", thread)

    async def cancel(count: int, trace_id: str) -> None:
        if count == 5:
            await recorder.ask("POST", f"/v1/chat/{trace_id}/cancel")

    thread = await chat("endless", "Count.", on_event=cancel)
    await chat("echo", "Enough.", conversation_id=thread)
    await recorder.write("cancelled", thread)

    async def kill(count: int, _: str) -> None:
        if count == 10:
            for name in ("orchestrator-1", "orchestrator-2"):
                recorder.stack.kill(name)

    thread = await chat("slow", "Count.", on_event=kill)
    await recorder.write("taken_over", thread)

    async def stop(count: int, _: str) -> None:
        if count == 10:
            for name in ("orchestrator-1", "orchestrator-2"):
                recorder.stack.kill(name, signal.SIGTERM)

    thread = await chat("endless", "Count.", on_event=stop)
    await recorder.stack.wait_all_ready()
    await recorder.write("handed_over", thread)

    thread = await chat("forgetful", "Hi, my name is Ada.")
    for agent, message in (
        *(("forgetful", "Tell me a story"), ("forgetful", "What is my name?")),
        *(("compacted", "Tell me another story"), ("compacted", "What is my name?")),
        ("forgetful", "Thanks!"),
    ):
        await chat(agent, message, "json", conversation_id=thread)
    await recorder.write("compacted", thread)

    thread = await chat("echo", "Forget me.")
    await recorder.ask("DELETE", f"/v1/conversations/{thread}")
    recorder.forget()
    await recorder.write("erased", thread)


async def record_rated(recorder: Recorder) -> None:
    thread = await recorder.chat("shop", "Where is order ORD-1006?", "json")
    await recorder.rate(thread, score=-1, label="wrong", comment="It is here.")
    await recorder.rate(thread, score=0.5)
    await recorder.chat("shop", "And ORD-1001?", "json", conversation_id=thread)
    await recorder.rate(thread, score=1)
    await recorder.rate(thread)
    await recorder.write("rated", thread)


async def record_busy(recorder: Recorder) -> None:
    """Record a reply that a message interrupts, and one that a message steers."""
    thread = await recorder.chat("echo", "Hello")
    sent: list[asyncio.Task[Any]] = []

    async def steer(count: int, _: str) -> None:
        if count == 3:
            sent.append(asyncio.create_task(recorder.steer("waiting", "And ORD-1002?", thread)))

    async def interrupt(count: int, _: str) -> None:
        if count == 5:
            message, body = "Where is ORD-1001?", {"conversation_id": thread, "on_busy": "interrupt"}
            chat = recorder.chat("waiting", message, on_event=steer, **body)
            sent.append(asyncio.create_task(chat))

    await recorder.chat("endless", "Count.", on_event=interrupt, conversation_id=thread)
    for each in sent:  # which grows
        await each
    await recorder.write("busy", thread)


async def main(folder: Path) -> None:
    """Write all of it to `folder`."""
    async with (
        running_stack(ProcessCounts(gateways=1, orchestrators=2, tool_runners=1)) as stack,
        httpx.AsyncClient(timeout=60, trust_env=False) as http,
        open_log(stack.environment.database_url) as log,
    ):
        recorder = Recorder(stack, http, log, folder)
        await recorder.make_agents()
        await record_all(recorder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
