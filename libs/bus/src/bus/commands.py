"""What else writes to conversations than their runs: commands to the orchestrators, by request and reply."""

import contextlib

from bus.errors import BusUnavailable
from bus.rpc import Rpc
from contracts import messages, subjects, wire
from contracts.timings import COMMAND_ASK_SECONDS, COMMAND_ASKS


async def erase_conversation(rpc: Rpc, account_id: str, conversation_id: str, *, trace_id: str) -> bool:
    """Erase a conversation: True if it was there and is gone for every reader from now on.

    False: the account has no such conversation; it may be unknown, another's, or erased before. Raises
    BusUnavailable where nobody serves or Postgres does not answer: whether it happened is then unknown. To
    ask again is safe, and true again if it is by the same `trace_id` (that of the request for it, 32 hex).
    """
    command = messages.EraseConversation(
        trace_id=trace_id, account_id=account_id, conversation_id=conversation_id
    )
    answer = await _asked(rpc, command, messages.EraseAnswered)
    if answer.outcome == "unavailable":
        raise BusUnavailable("the conversation could not be erased just now")
    return answer.outcome == "erased"


async def describe_conversation(
    rpc: Rpc, command: messages.DescribeConversation
) -> messages.DescribeAnswered:
    """Set title and metadata of a conversation; the answer is never `unavailable`.

    Raises BusUnavailable as `erase_conversation`; to ask again with the same `trace_id` is safe.
    """
    answer = await _asked(rpc, command, messages.DescribeAnswered)
    if answer.outcome == "unavailable":
        raise BusUnavailable("the conversation could not be described just now")
    return answer


async def decide_approval(rpc: Rpc, command: messages.DecideApproval) -> messages.ApprovalAnswered:
    """Decide about a tool call; to do so again is safe.

    Raises BusUnavailable where nobody serves: whether it was decided is then unknown.
    """
    return await _asked(rpc, command, messages.ApprovalAnswered)


async def fork_conversation(rpc: Rpc, command: messages.ForkConversation) -> messages.ForkAnswered:
    """Begin a conversation with what another one has; the answer is never `unavailable`.

    Raises BusUnavailable as `erase_conversation`; to ask again with the same ids is safe.
    """
    answer = await _asked(rpc, command, messages.ForkAnswered)
    if answer.outcome == "unavailable":
        raise BusUnavailable("the conversation could not be forked just now")
    return answer


async def _asked(rpc: Rpc, command: messages.Command, reply: type[wire.M]) -> wire.M:
    """Of whichever worker answers first: one that is frozen takes a command and never does.

    One that only takes longer continues, and a repeat finds it done.
    """
    subject = subjects.commands(command.account_id)
    for _ in range(COMMAND_ASKS - 1):
        with contextlib.suppress(BusUnavailable):
            return await rpc.ask(subject, command, reply, timeout=COMMAND_ASK_SECONDS)
    return await rpc.ask(subject, command, reply, timeout=COMMAND_ASK_SECONDS)
