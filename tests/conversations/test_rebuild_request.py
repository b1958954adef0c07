"""Build the request of a run that has started once more."""

from agentchat.conversations.aggregate.opening_rules import ResumeRun, decide_opening
from agentchat.conversations.aggregate.rebuild_request import rebuild_request
from tests.conversations.given import AGENT, AT, LATER, begin, build_thread, request, trace


def test_a_request_is_rebuilt_with_the_facts_of_its_run() -> None:
    conversation = build_thread(*begin("b", form="json", prompt_override="Be brief."))
    run = conversation.run(trace("b"))
    assert run is not None
    again = rebuild_request(conversation, run, 3)
    assert again == request("b", attempt=3, form="json", prompt="Be brief.", deadline=AT)
    assert isinstance(decide_opening(conversation, again, AGENT, now=LATER, expired=True), ResumeRun)
