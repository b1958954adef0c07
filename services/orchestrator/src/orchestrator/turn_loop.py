"""The turn: what the conversation needs next is looked up, done, and appended, until it needs no more.

Everything that happens in a run happens here. A step is done between two appends and may be stopped at any
moment; what it returns is stored at the version that it was done for, or another worker has the run.
"""

from collections.abc import Awaitable, Callable, Sequence

from contracts import events
from conversations.conversation import Conversation, Run
from conversations.turn import Step, next_step

Perform = Callable[[Conversation, Step], Awaitable[Sequence[events.Event]]]
Append = Callable[[Conversation, Sequence[events.Event]], Awaitable[Conversation]]
Announce = Callable[[Sequence[events.Event]], Awaitable[None]]


async def run_turn(
    conversation: Conversation, trace_id: str, *, perform: Perform, append: Append, announce: Announce
) -> Conversation:
    """The conversation at the end of this trace's run."""
    while step := next_step(run_of(conversation, trace_id)):
        done = await perform(conversation, step)
        conversation = await append(conversation, done)
        await announce(done)
    return conversation


def run_of(conversation: Conversation, trace_id: str) -> Run:
    """The run of a request that was opened."""
    run = conversation.run(trace_id)
    assert run is not None, "an opened request has a run"
    return run
