"""/ai-sdk/v1: agents for `useChat` of the AI SDK, by its UI message stream, version 1 (decision 59).

For integrators: docs/integrate/ai-sdk.md.
"""

from gateway.http.problem_responses import Wording
from gateway.protocols.ai_sdk.ai_sdk_chat import chat
from gateway.protocols.ai_sdk.reconnect import reconnect
from gateway.protocols.ai_sdk.ui_message_chunks import refusal_words

HANDLERS = (chat, reconnect)
WORDING = Wording(prefix="/ai-sdk/", words=refusal_words, body=str)
