"""The conversation and the run that a case recorded."""

from conversations.aggregate.conversation import Conversation, Run, fold
from conversations.event_store import mapper
from evals.cases import Case


def conversation_of(case: Case) -> Conversation:
    """As it was at the end of the case's run, which is the last one. Raises UnreadableEvent."""
    return fold(case.origin.conversation_id, (mapper.event_in(bytes(each)) for each in case.events))


def run_of_case(case: Case) -> Run:
    """Raises UnreadableEvent; LookupError where the events hold no such run that has ended."""
    run = conversation_of(case).run(case.id)
    if run is None or run.state == "running":
        raise LookupError(f"the events of case {case.id} hold no such run that has ended")
    return run
