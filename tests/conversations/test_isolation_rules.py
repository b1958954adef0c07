"""Whatever a request of one user asks, nothing of another user or account is shown or changed. Pure."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.messages import DescribeConversation, ForkConversation, GiveFeedback
from agentchat.contracts.ownership import Owner, build_scope, may_use
from agentchat.contracts.values import Decider
from agentchat.conversations.aggregate.conversation import fold
from agentchat.conversations.aggregate.description_rules import describe_conversation
from agentchat.conversations.aggregate.feedback_rules import give_feedback
from agentchat.conversations.aggregate.forking import fork
from agentchat.conversations.aggregate.opening_rules import NOT_FOUND, decide_opening
from tests.conversations.given import AGENT, LATER, build_conversation_started, request, trace, turn

VISIBLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=8)
USERS = st.none() | st.sampled_from(["a", "b", "a/b", "/"]) | VISIBLE
OWNERS = st.builds(Owner, st.sampled_from(["account-1", "account-2"]), USERS)


def ask_everything(owner: Owner, stored: list[events.Event]) -> list[Any]:
    """What each rule of a conversation answers to a request of this owner."""
    conversation, account, user = fold("conversation-1", stored), owner.account_id, owner.user_id
    who: dict[str, Any] = {"account_id": account, "user_id": user, "conversation_id": "conversation-1"}
    by = Decider(kind="account", id="key-1")
    feedback = GiveFeedback(**who, trace_id=trace(), message_id="reply-a", by=by, score=1)
    copy = ForkConversation(
        **who | {"conversation_id": "c2"}, trace_id=trace("x"), source_id="conversation-1"
    )
    title = DescribeConversation(**who, trace_id=trace("x"), title="Mine")
    again, new = (request(word, **who) for word in ("a", "other"))
    return [
        give_feedback(conversation, feedback, LATER),
        fork(stored, [1] * len(stored), copy, LATER),
        describe_conversation(conversation, title, LATER),
        *(decide_opening(conversation, each, AGENT, now=LATER, expired=False) for each in (again, new)),
    ]


@given(OWNERS, OWNERS)
def test_nobody_gets_anything_of_somebody_else(one: Owner, other: Owner) -> None:
    is_own = one.account_id == other.account_id and other.user_id in (None, one.user_id)
    started = replace(build_conversation_started(), account_id=one.account_id, user_id=one.user_id)
    answers = ask_everything(other, [started, *turn("a", "Hello", "Hi")])
    refused = [each == NOT_FOUND or getattr(each, "outcome", "") == "not_found" for each in answers]
    assert refused == [not is_own] * len(answers)
    assert may_use(other, one) == is_own


@given(OWNERS, OWNERS)
def test_names_that_clients_choose_never_meet(one: Owner, other: Owner) -> None:
    assert (build_scope(one) == build_scope(other)) == (one == other)
