"""Read what OpenAI's clients send outside the body: the conversation, and tasks of Open WebUI."""

import re

from litestar.datastructures import Headers

from agentchat.gateway.access.checks import find_agent
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.protocols.client_history import ClientHistory, check_name

_CONVERSATION_HEADERS = ("X-Conversation-Id", "X-OpenWebUI-Chat-Id")
_KEY = re.compile(r"[!-~]{1,255}\Z")
_TASK_HEADER = "X-OpenWebUI-Task"
# The templates of Open WebUI 0.12 for titles, tags, follow-ups and queries begin and end in the same way
# (`open_webui/config.py`).
_TASK_BEGIN, _TASK_END = "### Task:", "</chat_history>"


async def find_agent_of_model(request: JsonRequest, model: str) -> str:
    """Return the id of the agent that `model` names. Raises Refusal: 404; DatabaseUnavailable."""
    return await find_agent(request, model, ": see GET /openai/v1/models")


def read_conversation_key(headers: Headers) -> str | None:
    """Return the caller's own name for the conversation; None without one. Raises Refusal: 400."""
    for name in _CONVERSATION_HEADERS:
        value = headers.get(name)
        if value is not None:
            if not _KEY.match(value):
                raise build_field_refusal(name, "This header has 1 to 255 characters of visible ASCII.")
            return check_name(name, value)
    return None


def is_open_webui_task(headers: Headers, shown: ClientHistory) -> bool:
    """Return True if the client asks about a conversation, and not in one.

    The header X-OpenWebUI-Task says so; without it, the form of the prompt does. A person who writes such a
    message gets an answer without tools, which is harmless.
    """
    if _TASK_HEADER in headers:
        return bool(headers[_TASK_HEADER].strip())
    text = shown.message.strip()
    return not shown.history and text.startswith(_TASK_BEGIN) and text.endswith(_TASK_END)
