"""Define the bodies of feedback on replies in the HTTP API."""

from typing import Annotated

import msgspec

from agentchat.contracts.values import MAX_COMMENT, MAX_LABEL, Decider

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class FeedbackBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Feedback on a reply. It replaces earlier feedback of the same person.

    One piece of feedback is kept for each name in `on_behalf_of`, which is recorded and not verified, and one
    without a name.
    """

    score: Annotated[float, msgspec.Meta(ge=-1, le=1, description="From -1 (bad) to 1 (good).")]
    label: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_LABEL)] | None = None
    comment: Annotated[str, msgspec.Meta(max_length=MAX_COMMENT)] | None = None
    on_behalf_of: Name | None = None


class StoredFeedback(msgspec.Struct, frozen=True, kw_only=True):
    """Feedback on a reply as it is stored. `by` was authenticated."""

    message_id: str
    conversation_id: str
    trace_id: str
    score: float
    label: str | None
    comment: str | None
    on_behalf_of: str | None
    by: Decider
    at: str


class RatingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The number of people who gave feedback on a reply, their mean score, and the newest feedback."""

    count: int
    mean_score: float
    newest: StoredFeedback
