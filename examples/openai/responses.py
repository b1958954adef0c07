"""A response of OpenAI's API as it comes, with the agent's tools, and one after it: responses.py [MESSAGE]

Where a stream breaks off, the rest of it is read from after its last event.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"] + "/openai/v1", api_key=os.environ["API_KEY"])
agent = os.environ["AGENT_ID"]
ENDS = ("response.completed", "response.incomplete", "response.failed")


def show(stream: Iterable[Any]) -> str:
    """Print a stream to its end, however often it breaks off; returns the id of the response."""
    response_id, last = "", -1
    while True:
        try:
            for event in stream:
                last = event.sequence_number
                if event.type == "response.created":
                    response_id = event.response.id
                elif event.type == "response.output_text.delta":
                    print(event.delta, end="", flush=True)
                elif event.type == "response.output_item.done" and event.item.type == "mcp_call":
                    print(f"\n- {event.item.name}({event.item.arguments}): {event.item.status}")
                elif event.type in ENDS:
                    print(f"\n({event.response.status}, {response_id})")
                    return response_id
        except openai.APIError:
            if not response_id:
                raise
        stream = client.responses.retrieve(response_id, stream=True, starting_after=last)


message = " ".join(sys.argv[1:]) or "Where is order ORD-1006?"
first = show(client.responses.create(model=agent, input=message, stream=True))
show(client.responses.create(model=agent, input="Thanks!", previous_response_id=first, stream=True))
