"""A tool call that needs approval, by AG-UI over plain HTTP: approvals_ag_ui.py [yes|no] [MESSAGE]

AG-UI's own clients do the same with `runAgent({ resume })`: docs/integrate/ag-ui.md. A run ends with
interrupts, and the next run of the thread answers all of them, minutes or days later.
"""

import json
import os
import sys
import uuid
from typing import Any

import httpx

decision = sys.argv[1] if len(sys.argv) > 1 else None
messages = [{"id": "1", "role": "user", "content": " ".join(sys.argv[2:]) or "Cancel ORD-1030"}]
thread = str(uuid.uuid4())
client = httpx.Client(
    base_url=os.environ["BASE_URL"] + "/ag-ui/v1/agents/", headers={"X-Api-Key": os.environ["API_KEY"]}
)


def run(**more: Any) -> list[dict[str, Any]]:
    """One run of the thread: print it, and return the interrupts that it waits for."""
    asked: dict[str, Any] = {"threadId": thread, "runId": str(uuid.uuid4()), "messages": messages, **more}
    text = ""
    with client.stream("POST", os.environ["AGENT_ID"], json=asked, timeout=60) as answer:
        for line in answer.iter_lines():
            event = json.loads(line.removeprefix("data: ") or "{}")
            match event.get("type"):
                case "TEXT_MESSAGE_CONTENT":
                    text += event["delta"]
                    print(event["delta"], end="", flush=True)
                case "TOOL_CALL_START":
                    print(f"- {event['toolCallName']}", end="")
                case "TOOL_CALL_ARGS":
                    print(f"({event['delta']})")
                case "TOOL_CALL_RESULT":
                    print(f"  gave {event['content']}")
                case "RUN_FINISHED":
                    print()
                    messages.append({"id": asked["runId"], "role": "assistant", "content": text})
                    return list(event.get("outcome", {}).get("interrupts", []))
                case "RUN_ERROR":
                    sys.exit(f"{event['code']}: {event['message']}")
    sys.exit("The stream broke off: send the run again, with the same runId.")


def answer_all(interrupt: dict[str, Any]) -> dict[str, Any]:
    """What a person says of the call; a backend would show it to its user, and keep the interrupt's id."""
    word = decision or input(f"{interrupt['message']} May it? [yes/no] ")
    payload = {"approved": word == "yes"}
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


interrupts = run()
while interrupts:
    interrupts = run(resume=[answer_all(each) for each in interrupts])
