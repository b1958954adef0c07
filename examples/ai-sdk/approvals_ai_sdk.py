"""A tool call that needs approval, by the AI SDK's protocol: approvals_ai_sdk.py [yes|no] [MESSAGE]

The AI SDK's client does the same with `addToolApprovalResponse`: docs/integrate/ai-sdk.md. The chat is sent
again with the decision in the agent's message, minutes or days later, and that message continues.
"""

import json
import os
import sys
import uuid
from typing import Any

import httpx

decision = sys.argv[1] if len(sys.argv) > 1 else None
asked = {"type": "text", "text": " ".join(sys.argv[2:]) or "Cancel ORD-1030"}
question = {"id": "1", "role": "user", "parts": [asked]}
chat_id = str(uuid.uuid4())
client = httpx.Client(
    base_url=os.environ["BASE_URL"] + "/ai-sdk/v1/agents/", headers={"X-Api-Key": os.environ["API_KEY"]}
)


def send(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Send the chat and print its next message; returns the tool parts in it that wait for a person."""
    calls: dict[str, dict[str, Any]] = {}
    body = {"id": chat_id, "messages": messages}
    with client.stream("POST", f"{os.environ['AGENT_ID']}/chat", json=body, timeout=60) as answer:
        if answer.is_error:
            sys.exit(answer.read().decode())
        for line in answer.iter_lines():
            chunk = json.loads(line.removeprefix("data: ").removeprefix("[DONE]") or "{}")
            match chunk.get("type"):
                case "text-delta":
                    print(chunk["delta"], end="", flush=True)
                case "tool-input-available":
                    print(f"- {chunk['toolName']}({json.dumps(chunk['input'])})")
                    calls[chunk["toolCallId"]] = chunk
                case "tool-output-available":
                    print(f"  gave {json.dumps(chunk['output'])}")
                case "tool-approval-request":
                    calls[chunk["toolCallId"]]["approval"] = {"id": chunk["approvalId"]}
                case "error":
                    sys.exit(chunk["errorText"])
                case "finish":
                    print()
                    return [call for call in calls.values() if "approval" in call]
    sys.exit("The stream broke off: go on with GET …/chat/{chat_id}/stream.")


def answer_all(call: dict[str, Any]) -> dict[str, Any]:
    """The part of a call with what a person says of it; a backend would keep the message for its user."""
    word = decision or input(f"May the agent run {call['toolName']}? [yes/no] ")
    part = {"type": "dynamic-tool", "state": "approval-responded", "toolCallId": call["toolCallId"]}
    part |= {"toolName": call["toolName"], "input": call["input"]}
    return part | {"approval": {**call["approval"], "approved": word == "yes"}}


waiting = send(question)
while waiting:
    waiting = send(
        question, {"id": "2", "role": "assistant", "parts": [answer_all(each) for each in waiting]}
    )
