"""Ask the agent and wait for the complete reply: python chat.py [MESSAGE]"""

import json
import os
import sys

from agentchat.client import AgentChat

message = " ".join(sys.argv[1:]) or "Where is order ORD-1006?"

with AgentChat(
    os.environ["API_KEY"], base_url=os.environ["BASE_URL"], agent_id=os.environ["AGENT_ID"]
) as client:
    reply = client.chat(message)

print(reply.text)
for call in reply.tool_calls:
    print(f"- {call.name}({json.dumps(call.input)}) gave {len(call.output)} characters")
print(f"({reply.message.token_count} tokens, conversation {reply.conversation_id}, trace {reply.trace_id})")
