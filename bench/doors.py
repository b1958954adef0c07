"""`python -m bench.doors`: what a chat costs at each door beside form 1, in CPU of the whole service."""

import argparse
import asyncio
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any
from uuid import uuid4

import msgspec
from rich.console import Console

from bench import usage
from bench.load import Load, run
from bench.processes import lean_upstream
from bench.scenarios import Chats
from bench.subjects import Service, service
from runtime.web import raise_open_files

_CHATS = Chats(name="32 at once", chats=400, at_once=32)
_FORM1 = "form 1"
Bodies = Callable[[str], dict[str, Any]]


class Door(msgspec.Struct, frozen=True):
    """Where it is, with the agent's id in `{agent}`; `body` makes a request, `done` is in its last event."""

    path: str
    body: Bodies
    done: str
    headers: dict[str, str] = {}


def _own(_: str) -> dict[str, Any]:
    return {"message": "Go."}


def _ai_sdk(_: str) -> dict[str, Any]:
    parts = [{"type": "text", "text": "Go."}]
    return {"id": f"{uuid4()}", "messages": [{"id": "m", "role": "user", "parts": parts}]}


def _ag_ui(_: str) -> dict[str, Any]:
    message = {"id": "m", "role": "user", "content": "Go."}
    return {"threadId": f"{uuid4()}", "runId": f"{uuid4()}", "messages": [message]}


def _completion(agent: str) -> dict[str, Any]:
    return {"model": agent, "messages": [{"role": "user", "content": "Go."}], "stream": True}


def _response(agent: str) -> dict[str, Any]:
    return {"model": agent, "input": "Go.", "stream": True}


DOORS = {
    _FORM1: Door("/v1/chat/stream", _own, '"type":"done"', {"X-Stream-Form": "1"}),
    "form 2": Door("/v1/chat/stream", _own, '"type":"done"', {"X-Stream-Form": "2"}),
    "AI SDK": Door("/ai-sdk/v1/agents/{agent}/chat", _ai_sdk, '"type":"finish"'),
    "AG-UI": Door("/ag-ui/v1/agents/{agent}", _ag_ui, '"type":"RUN_FINISHED"'),
    "OpenAI chat": Door("/openai/v1/chat/completions", _completion, "[DONE]"),
    "OpenAI responses": Door("/openai/v1/responses", _response, '"type":"response.completed"'),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.doors")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    raise_open_files()  # of what is started here too
    asyncio.run(_measure(given.rounds))


async def _measure(rounds: int) -> None:
    async with lean_upstream() as upstream, service(upstream, (_CHATS.model,)) as subject:
        for door in DOORS.values():  # code that no chat has met
            await _cpu(subject, door)
        found = [{name: await _cpu(subject, DOORS[name]) for name in _turns(each)} for each in range(rounds)]
    console = Console(width=110)
    for name, line in _lines(found):
        console.print(f"{name:18}{line}", highlight=False)


def _turns(number: int) -> list[str]:
    """Each round begins with another door: what grows meanwhile is nobody's own."""
    names, first = list(DOORS), number % len(DOORS)
    return names[first:] + names[:first]


def _lines(found: list[dict[str, float]]) -> Iterator[tuple[str, str]]:
    yield "", "CPU s / 1,000 chats, beside form 1 in the same round: median (lowest to highest)"
    for name in DOORS:
        ratios = sorted(each[name] / each[_FORM1] for each in found)
        cost = median(each[name] for each in found)
        yield name, f"{cost:6.2f}  {median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


async def _cpu(subject: Service, door: Door) -> float:
    """Seconds for 1,000 chats. Raises RuntimeError where one fails."""
    usual = subject.load(_CHATS.model, _CHATS.chats, _CHATS.at_once)
    agent = usual.headers["X-Agent-Id"]
    load = Load(
        url=subject.environment.base_url + door.path.format(agent=agent),
        headers=_key(usual.headers["X-Api-Key"], door) | {"X-Agent-Id": agent} | door.headers,
        bodies=tuple(door.body(agent) for _ in range(_CHATS.chats)),
        chats=_CHATS.chats,
        at_once=_CHATS.at_once,
        done=door.done,
    )
    await subject.settle()
    before = usage.cpu_seconds(subject.pids)
    loaded = await run(load)
    await subject.settle()
    if loaded.failures:
        raise RuntimeError(f"{door.path}: {loaded.failures}")
    return sum(usage.since(before, usage.cpu_seconds(subject.pids)).values()) / _CHATS.chats * 1e3


def _key(key: str, door: Door) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if door.path.startswith("/openai/") else {"X-Api-Key": key}


if __name__ == "__main__":
    main()
