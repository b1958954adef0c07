"""Build the request of a started run again: after a decision, a cancellation, or a lost worker."""

from agentchat.contracts.messages import ChatRequested
from agentchat.conversations.aggregate.conversation import Conversation, Run, copy_request_facts

DECIDED, CANCELLED = 1_000_000, 2_000_000
"""The first attempt numbers of a request that is published after a decision and after a cancellation.

The sweeper counts from 1, so no two publications of one run share a number.
"""


def rebuild_request(conversation: Conversation, run: Run, attempt: int) -> ChatRequested:
    """Build the request for the `attempt`-th publication of a run that has started.

    Published by `projector.run_sweeper`, consumed by `orchestrator.inbox.inbox`.
    """
    return ChatRequested(
        trace_id=run.trace_id,
        attempt=attempt,
        account_id=conversation.account_id or "",
        user_id=conversation.user_id,
        agent_id=run.agent_id,
        conversation_id=conversation.conversation_id,
        new_conversation=False,
        message_id=run.user_message_id,
        message=run.user_text,
        attachments=run.attachments,
        requested_at=run.requested_at,
        deadline=run.requested_at,  # it has started, so no deadline applies
        prompt=run.prompt_override,
        is_task=run.max_tool_rounds == 0 and not run.retrieves,
        **copy_request_facts(run),
    )
