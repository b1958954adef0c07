"""Bodies made of JSON that was kept are those that are encoded as a whole."""

from typing import Any

import msgspec
from hypothesis import given as for_all
from hypothesis import strategies as st

from agentchat.conversations.aggregate.conversation import evolve, evolve_all
from agentchat.conversations.aggregate.model_messages import HistoryCache, build_prompt
from agentchat.orchestrator.models import ModelCall
from agentchat.orchestrator.models.anthropic.client import build_body, encode_body
from tests.conversations.given import (
    build_conversation_started,
    build_model_replied,
    build_run,
    build_user_message,
    trace,
    turn,
)
from tests.conversations.test_model_messages import build_conversations

_CONTROLS = (None, {"type": "ephemeral", "ttl": "1h"}, {"type": "off"})
_wanted = st.tuples(
    st.integers(0, 3), st.booleans(), st.sampled_from(["", "Go on"]), st.sampled_from(_CONTROLS)
)


@for_all(build_conversations(), st.lists(_wanted, max_size=8))
def test_a_body_is_that_which_is_encoded_as_a_whole(told: Any, wanted: list[Any]) -> None:
    """In whatever order runs are asked for; a call that is made again later, too."""
    conversation, kept = told[0], HistoryCache()
    calls: list[tuple[ModelCall, bytes]] = []
    for number, tools, sent, control in wanted:
        run = conversation.runs[number % len(conversation.runs)]
        prompt = build_prompt(conversation, run.trace_id, tools_offered=tools, documents="d", histories=kept)
        call = ModelCall(
            model="m",
            system="Be brief.",
            messages=prompt.messages,
            parameters={"cache_control": control},
            earlier=prompt.earlier,
            settled=prompt.settled,
            already_sent=sent,
        )
        calls.append((call, msgspec.json.encode(build_body(call))))
        assert encode_body(call) == calls[-1][1]
    assert all(encode_body(call) == body for call, body in calls)


def test_provider_data_of_blocks_is_not_sent() -> None:
    block = {"type": "text", "text": "Hi", "provider_data": {"anthropic": {"id": "a"}}}
    conversation = build_run(
        build_conversation_started(),
        build_user_message("a"),
        build_model_replied([block], "a"),
        build_user_message("b"),
        build_user_message("c"),
    )
    prompt = build_prompt(conversation, trace("c"), tools_offered=True)
    call = ModelCall(
        model="m",
        system="",
        messages=prompt.messages,
        parameters={},
        earlier=prompt.earlier,
        settled=prompt.settled,
    )
    assert b"provider_data" in msgspec.json.encode(prompt.messages[: prompt.settled.count])
    assert encode_body(call) == msgspec.json.encode(build_body(call))


def test_a_message_is_encoded_once() -> None:
    kept, encoded = HistoryCache(), []

    def encode(message: dict[str, Any]) -> bytes:
        encoded.append(message)
        return msgspec.json.encode(message)

    stored = (build_conversation_started(), *turn("a", "Hello", "Hi"), *turn("b", "So", "Well"))
    begun = build_run(*stored)
    asked = evolve(begun, build_user_message("c"))
    first = build_prompt(asked, trace("c"), tools_offered=True, histories=kept)
    made = first.settled.encode_json(encode)
    longer = evolve_all(begun, (*turn("c", "And", "Then"), build_user_message("d")))
    second = build_prompt(longer, trace("d"), tools_offered=True, histories=kept)
    assert second.settled.encode_json(encode).startswith(made)
    assert first.settled.encode_json(encode) == made
    assert encoded == second.messages[:5]
