"""Headers of the OpenAI API: the key, the key for the conversation, the count of tries, tasks."""

import re

from gateway.chat.client_history import ClientHistory, check_name
from gateway.http.exchange import Exchange
from gateway.http.problem_responses import invalid
from gateway.openapi.described import parameter

_NAMES = ("X-Conversation-Id", "X-OpenWebUI-Chat-Id")
_KEY = re.compile(rb"[!-~]{1,255}\Z")
_COUNT = b"x-stainless-retry-count"
_NUMBER = re.compile(rb"[0-9]{1,4}\Z")


def conversation_key_of(exchange: Exchange) -> str | None:
    """The caller's own name for the conversation; None without one. Raises Refusal: 400."""
    for name in _NAMES:
        values = exchange.header(name.lower().encode())
        if values:
            if len(values) > 1 or not _KEY.match(values[0]):
                raise invalid(name, "This header is sent once, with 1 to 255 characters of visible ASCII.")
            return check_name(name, values[0].decode())
    return None


def tries_of(exchange: Exchange) -> int | None:
    """How often the SDK has sent this before; None where the client does not count."""
    values = exchange.header(_COUNT)
    return int(values[0]) if len(values) == 1 and _NUMBER.match(values[0]) else None


_HEADER = "X-OpenWebUI-Task"
TASK = parameter(
    "header",
    _HEADER,
    "If not empty, the request is a task of Open WebUI's, such as title_generation: it is answered without "
    "tools and knowledge, in a conversation that no list has.",
)
# The templates of Open WebUI 0.12 (`config.py`) begin and end alike: for titles, tags, follow-ups, queries.
_BEGINS, _ENDS = "### Task:", "</chat_history>"


def is_open_webui_task(exchange: Exchange, shown: ClientHistory) -> bool:
    """Whether the client asks about a conversation, and not in one.

    By the header; without it by the form of the prompt: a person who writes such a message gets an answer
    without tools, which is harmless.
    """
    values = exchange.header(_HEADER.lower().encode())
    if values:
        return any(value.strip() for value in values)
    text = shown.message.strip()
    return not shown.history and text.startswith(_BEGINS) and text.endswith(_ENDS)
