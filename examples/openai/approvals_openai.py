"""A tool call that needs approval, by OpenAI's Responses API: approvals_openai.py [yes|no] [MESSAGE]

The response is completed with a request, and the next one answers that, minutes or days later.
"""

import os
import sys

import openai
from openai.types.responses import Response

client = openai.OpenAI(base_url=os.environ["BASE_URL"] + "/openai/v1", api_key=os.environ["API_KEY"])
agent = os.environ["AGENT_ID"]
decision = sys.argv[1] if len(sys.argv) > 1 else None
message = " ".join(sys.argv[2:]) or "Cancel ORD-1030"


def decide_all(name: str, arguments: str) -> bool:
    """What a person says of the call; a backend would show it to its user, and keep the response's id."""
    return (decision or input(f"May the agent run {name}({arguments})? [yes/no] ")) == "yes"


def show(response: Response) -> None:
    """What came of the calls, and the text."""
    for item in response.output:
        if item.type == "mcp_call" and item.status != "incomplete":
            print(f"- {item.name}({item.arguments}): {item.status}")
    print(response.output_text)


response = client.responses.create(model=agent, input=message)
show(response)
while requests := [item for item in response.output if item.type == "mcp_approval_request"]:
    response = client.responses.create(
        model=agent,
        previous_response_id=response.id,
        input=[
            {
                "type": "mcp_approval_response",
                "approval_request_id": request.id,
                "approve": decide_all(request.name, request.arguments),
            }
            for request in requests
        ],
    )
    show(response)
