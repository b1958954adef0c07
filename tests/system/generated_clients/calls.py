"""Calls of a client that openapi-python-client has generated. Prints what came of them, in JSON."""

import json
import os
from typing import Any

from generated import AuthenticatedClient
from generated.api.approvals import list_approvals
from generated.api.chat import chat, stream_chat
from generated.api.conversations import (
    delete_conversation,
    describe_conversation,
    fork_conversation,
    get_conversation,
    list_conversations,
    list_messages,
)
from generated.api.openai import complete, list_models
from generated.api.webhooks import list_webhook_endpoints
from generated.models.chat_body import ChatBody
from generated.models.chat_completion import ChatCompletion
from generated.models.description_changes import DescriptionChanges
from generated.models.fork_body import ForkBody
from generated.models.list_conversations_metadata import ListConversationsMetadata
from generated.types import Unset


def main() -> None:
    url, key, agent = (os.environ[name] for name in ("BASE_URL", "API_KEY", "AGENT"))
    client: Any = AuthenticatedClient(
        base_url=url, token=key, prefix="", auth_header_name="X-Api-Key", timeout=60
    )
    body = ChatBody(message=os.environ["QUESTION"])
    reply = chat.sync(client=client, body=body, x_agent_id=agent)
    thread = reply.conversation_id
    again = ChatBody(message="Thanks!", conversation_id=str(thread))
    events = stream_chat.sync(client=client, body=again, x_agent_id=agent)
    unknown = chat.sync_detailed(client=client, body=body, x_agent_id=agent, idempotency_key="not allowed")
    changes = DescriptionChanges.from_dict({"title": "Generated", "metadata": {"made by": "a generator"}})
    titled = describe_conversation.sync(conversation_id=thread, client=client, body=changes)
    fork = fork_conversation.sync(conversation_id=thread, client=client, body=ForkBody())
    pairs = ListConversationsMetadata.from_dict({"metadata.made by": "a generator"})
    found = list_conversations.sync(client=client, limit=1, metadata=pairs)
    while not found.data:  # the list is a moment behind
        found = list_conversations.sync(client=client, limit=1, metadata=pairs)
    messages = list_messages.sync(conversation_id=thread, client=client)
    bearer: Any = AuthenticatedClient(base_url=url, token=key, timeout=60)
    asked = ChatCompletion.from_dict(
        {"model": agent, "messages": [{"role": "user", "content": os.environ["QUESTION"]}]}
    )
    completion = complete.sync(client=bearer, body=asked)
    gone = delete_conversation.sync_detailed(conversation_id=fork.conversation_id, client=client)
    read = get_conversation.sync_detailed(conversation_id=fork.conversation_id, client=client)
    results = {
        "conversation": str(thread),
        "said": [message.content for message in messages.data],
        "reply": reply.message.content,
        "tools": [] if isinstance(reply.tool_calls, Unset) else [call.name for call in reply.tool_calls],
        "last event": events.strip().rpartition("data: ")[2],
        "title": titled.title,
        "found": [row.title for row in found.data],
        "completion": completion.choices[0].message.content,
        "models": len(list_models.sync(client=bearer).data),
        "endpoints": list_webhook_endpoints.sync(client=client).data,
        "approvals": len(list_approvals.sync(client=client, limit=1).data),
        "refused": [unknown.status_code, unknown.parsed.code],
        "deleted": [gone.status_code, read.status_code, read.parsed.code],
    }
    print(json.dumps(results))


main()
