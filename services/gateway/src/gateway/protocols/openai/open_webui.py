"""Open WebUI's own tasks: it asks the chat's model for titles, tags, follow-ups, search queries and more.

Source: Open WebUI 0.12, `utils/headers.py` (the placeholder {{TASK}} of a connection's headers) and the
templates of `config.py`, whose prompts begin and end alike.
"""

from gateway.chat.client_history import ClientHistory
from gateway.http.exchange import Exchange

_HEADER = "X-OpenWebUI-Task"
TASK = {
    "name": _HEADER,
    "in": "header",
    "description": "If not empty, the request is a task of Open WebUI's, such as title_generation: it is "
    "answered without tools and knowledge, in a conversation that no list has.",
    "schema": {"type": "string"},
}
_BEGINS, _ENDS = "### Task:", "</chat_history>"


def is_task(exchange: Exchange, shown: ClientHistory) -> bool:
    """Whether the client asks about a conversation, and not in one.

    By the header; without it by the form of the prompt: a person who writes such a message gets an answer
    without tools, which is harmless.
    """
    values = exchange.header(_HEADER.lower().encode())
    if values:
        return any(value.strip() for value in values)
    text = shown.message.strip()
    return not shown.history and text.startswith(_BEGINS) and text.endswith(_ENDS)
