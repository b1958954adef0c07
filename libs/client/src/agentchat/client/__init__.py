"""The Python client of Agent Chat ServiceSettings: `AgentChat`, and `AsyncAgentChat` for asyncio.

It chats, streams replies as typed events, and reads threads back; every failure is an `AgentChatError`.
It needs nothing of the service, only httpx and msgspec.
"""

from agentchat.client.aio import AsyncAgentChat, AsyncChatStream
from agentchat.client.client import AgentChat, ChatStream
from agentchat.client.errors import (
    AgentChatError,
    ApiError,
    AuthenticationFailed,
    ChatError,
    Conflict,
    ConnectionFailed,
    FieldError,
    InvalidRequest,
    InvalidResponse,
    Misconfigured,
    NotFound,
    PlanUpgradeRequired,
    RateLimited,
    ServerFailed,
    StorageFull,
    StreamInterrupted,
)
from agentchat.client.models import (
    Approval,
    Conversation,
    Elicitation,
    Feedback,
    FeedbackSummary,
    HistoryMessage,
    Message,
    Reply,
    Source,
    ToolRun,
)
from agentchat.client.retries import Timeouts
from agentchat.client.stream_events import Delta, Done, Event, MessageDone, Meta, Sources, Start, ToolCall

__all__ = [
    "AgentChat",
    "AgentChatError",
    "ApiError",
    "Approval",
    "AsyncAgentChat",
    "AsyncChatStream",
    "AuthenticationFailed",
    "ChatError",
    "ChatStream",
    "Conflict",
    "ConnectionFailed",
    "Conversation",
    "Delta",
    "Done",
    "Elicitation",
    "Event",
    "Feedback",
    "FeedbackSummary",
    "FieldError",
    "HistoryMessage",
    "InvalidRequest",
    "InvalidResponse",
    "Message",
    "MessageDone",
    "Meta",
    "Misconfigured",
    "NotFound",
    "PlanUpgradeRequired",
    "RateLimited",
    "Reply",
    "ServerFailed",
    "Source",
    "Sources",
    "Start",
    "StorageFull",
    "StreamInterrupted",
    "Timeouts",
    "ToolCall",
    "ToolRun",
]
