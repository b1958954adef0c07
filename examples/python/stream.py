"""Show a reply while it is written, and the tools as they run: python stream.py [MESSAGE]"""

import json
import os
import sys

from agentchat.client import AgentChat, ChatError, Delta, StreamInterrupted, ToolCall

message = " ".join(sys.argv[1:]) or "Where is order ORD-1006, and what else would suit customer CUST-001?"

with AgentChat(
    os.environ["API_KEY"], base_url=os.environ["BASE_URL"], agent_id=os.environ["AGENT_ID"]
) as client:
    try:
        with client.stream(message, form=2) as stream:
            for event in stream:
                match event:
                    case Delta():
                        print(event.content, end="", flush=True)
                    case ToolCall():
                        print(f"[{event.name} {json.dumps(event.input)}]", flush=True)
    except ChatError as error:
        sys.exit(f"\nThe run failed: {error}")
    except StreamInterrupted as error:
        # The run goes on without us: its reply will be in the thread.
        sys.exit(f"\nThe connection was cut; continue with conversation {error.conversation_id}.")

print(f"\n({len(stream.text)} characters, conversation {stream.conversation_id}, trace {stream.trace_id})")
