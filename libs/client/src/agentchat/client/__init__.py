"""Chat with Agent Chat Service from Python: `AgentChat`, and `AsyncAgentChat` for asyncio.

Send messages, stream replies as typed events, read conversations back. Every failure is an `AgentChatError`.
The package depends on httpx and msgspec only, not on the service.
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
