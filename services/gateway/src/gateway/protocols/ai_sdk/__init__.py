"""/ai-sdk/v1: agents behind `useChat` of the AI SDK, by its UI message stream, version 1.

`chat` and `reconnect` have the handlers, `body` a request, `answers` and `refusals` what is said, `wire` in
which words. For integrators: docs/integrate/ai-sdk.md; why: decision 59.
"""

from gateway.http.problem_responses import Wording
from gateway.protocols.ai_sdk.ai_sdk_chat import chat
from gateway.protocols.ai_sdk.ai_sdk_refusals import words
from gateway.protocols.ai_sdk.reconnect import reconnect

HANDLERS = (chat, reconnect)
WORDING = Wording(prefix="/ai-sdk/", words=words, body=str)
