"""Redaction: no part of what a rule finds is left anywhere in a case, and the case is still its run."""

import json
import re
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from agentchat.contracts import events, wire
from agentchat.contracts.values import Decider, InputAsked, ShownMessage, Source, ToolSpec, Usage
from agentchat.conversations.aggregate.conversation import Conversation
from agentchat.conversations.event_store import mapper
from agentchat.evals.case_redaction import CaseRedactor
from agentchat.evals.cases import Case
from agentchat.evals.errors import UnfitSuite
from agentchat.evals.redaction_rules import RedactionRule
from tests.conversations import given
from tests.evals.made_cases import RUNS, build_history_case

SECRET = "ΑΒΓΔΕΖ"
"""Its letters are in no other text: one that is left anywhere is found."""
GREEK = re.compile("[\u0391-\u03a9]")
DECISION_FIELDS = ("call_id", "round", "input_sha256", "expires_at", "agent_id", "server", "tool")
SECRETS = RedactionRule(name="secret", pattern=f"{SECRET}|ΗΘΙΚΛΜ")


def redact(case: Case, *rules: RedactionRule) -> Case:
    return CaseRedactor(rules).redact_case(case)


def fold_conversation(case: Case) -> Conversation:
    return case.fold_events()[0]


def build_case(*stored: events.Event, **more: Any) -> Case:
    """Of the run that ends with the last event."""
    return Case(
        id=stored[-1].trace_id,
        account_id="a",
        conversation_id="c",
        agent_id="agent-1",
        agent_version=3,
        events=tuple(msgspec.Raw(mapper.encode_state(each)) for each in stored),
        **{"message": "Where is it?"} | more,
    )


def list_texts(case: Case) -> list[Any]:
    return [json.loads(bytes(each)) for each in case.events]


def run_with(text: str, *middle: events.Event) -> Case:
    return build_case(
        given.build_conversation_started(),
        given.build_user_message(text=text),
        given.build_run_started(),
        *middle,
        *given.build_answer("Yes."),
    )


@pytest.mark.parametrize("name", RUNS)
def test_without_rules_a_case_keeps_its_bytes(name: str) -> None:
    case = build_history_case(name)
    assert redact(case) is case


@pytest.mark.parametrize("name", RUNS)
def test_a_redacted_case_evolves_to_its_recorded_run(name: str) -> None:
    case = build_history_case(name)
    before = _outline(fold_conversation(case))
    for pattern in (r"\w+", "(?s).+", "[aeiou]", "ORD-[0-9]+|Ada", "no match at all"):
        after = fold_conversation(redact(case, RedactionRule(pattern=pattern)))
        assert _outline(after) == before, pattern
        assert after.runs[-1].trace_id == case.id


def _outline(conversation: Conversation) -> list[Any]:
    """All of its runs that no rule may change."""
    return [
        (
            (run.trace_id, run.state, run.code, run.usage, run.version, run.agent_id, run.attempt),
            [
                (
                    each.number,
                    each.stop_reason,
                    [(call.call_id, call.name, call.is_error) for call in each.calls],
                )
                for each in run.rounds
            ],
        )
        for run in conversation.runs
    ]


@pytest.mark.parametrize("name", RUNS)
def test_equal_tool_calls_stay_equal_and_others_stay_others(name: str) -> None:
    case = build_history_case(name)
    hidden = redact(case, RedactionRule(pattern="ORD-[0-9]+|[A-Z]{3,}-[0-9]+"))

    def list_inputs(of: Case) -> list[bytes]:
        return [wire.encode_canonical(call.input) for each in of.fold_run().rounds for call in each.calls]

    before, after = list_inputs(case), list_inputs(hidden)
    assert [[one == other for other in before] for one in before] == [
        [one == other for other in after] for one in after
    ]


@pytest.mark.parametrize("name", RUNS)
def test_a_case_of_which_nothing_is_redacted_keeps_its_bytes(name: str) -> None:
    """What was thought and what its provider alone reads too."""
    case = build_history_case(name)
    assert redact(case, SECRETS) is case


def test_a_value_that_was_only_thought_is_not_left() -> None:
    thought = {"type": "thinking", "thinking": f"So it is {SECRET}.", "signature": "x"}
    case = run_with(
        "Who?", given.build_model_replied([thought, {"type": "text", "text": "Ada."}], stop_reason="end_turn")
    )

    found = redact(case, SECRETS)

    assert found.redacted == ("secret",)
    assert not GREEK.search(b"".join(bytes(each) for each in found.events).decode())


def test_no_field_of_any_event_is_passed_over() -> None:
    """Every text of every event that is not an id, a time or a name of the service's."""
    text, nested = (
        f"I am {SECRET}.",
        {"deep": [{SECRET: f"{SECRET}!", "n": 1}], "json": f'{{"x":"{SECRET}"}}'},
    )
    usage = Usage()
    common: dict[str, Any] = {"trace_id": given.trace(), "at": given.AT}
    asked = InputAsked(
        name="get_order",
        input=nested,
        key="k",
        message=text,
        requested_schema={"properties": {SECRET: {"title": text}}},
        url=f"https://x.example/?q={SECRET}",
        request_state=SECRET,
    )
    wait: dict[str, Any] = {
        **common,
        "call_id": "call-1",
        "round": 1,
        "input_sha256": "00",
        "expires_at": given.LATER,
        "agent_id": "agent-1",
        "server": "shop",
        "tool": "get_order",
    }
    offered = ToolSpec(
        name="get_order", server="shop", tool="get_order", description=text, input_schema=nested
    )
    blocks: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": text, "signature": SECRET},
        {"type": "text", "text": text, "citations": [{"cited_text": SECRET[:3]}]},
        {
            "type": "tool_use",
            "id": "call-1",
            "name": "get_order",
            "input": nested,
            "provider_data": {"x": SECRET},
        },
        {"type": "of_tomorrow", "content": [{"text": text}]},
    ]
    source = Source(
        index=1, id="s", title=text, url=text, source_type="markdown", score=0.5, snippet=f"…is {SECRET[:3]}…"
    )
    case = build_case(
        given.build_conversation_started(),
        events.ConversationSeeded(**common, messages=(ShownMessage("user", text),)),
        events.ConversationDescribed(**common, title=text, metadata={SECRET: text}),
        events.FeedbackGiven(
            **common,
            message_id="m-1",
            score=1,
            by=Decider(kind="operator", id=SECRET),
            on_behalf_of=text,
            label=text,
            comment=text,
        ),
        given.build_user_message(text=text),
        given.build_run_started(
            prompt_override=text, instructions=text, shown_sha256="ab", output_schema=nested, context=nested
        ),
        events.SourcesRetrieved(**common, sources=(source,)),
        given.build_compacted(1, word="a", summary=text, provider_data={"anthropic": {"content": text}}),
        events.Delta(**common, round=1, text=text, cuts=(3, len(text))),
        given.build_model_replied(blocks),
        events.ToolCalled(**common, round=1, call_id="call-1", name="get_order", input=nested),
        events.ApprovalRequested(approval_id="p-1", **wait),
        events.ElicitationRequested(approval_id="p-2", asked=asked, offered_tool=offered, **wait),
        events.ApprovalDecided(
            **common,
            approval_id="p-1",
            decision="approved",
            by=Decider(kind="operator", id=SECRET),
            on_behalf_of=text,
            input=nested,
            reason=text,
        ),
        given.build_tool_returned("call-1", json.dumps(nested)),
        events.RunFailed(**common, code="provider_error", message=text, usage=usage),
        passages={"s": f"It is\n{SECRET} who asks."},
    )

    hidden = redact(case, SECRETS)

    left = json.dumps([*list_texts(hidden), msgspec.to_builtins(hidden.passages)], ensure_ascii=False)
    assert not GREEK.search(left)
    opaque_names = (
        "signature",
        "request_state",
        "provider_data",
        "shown_sha256",
        "citations",
        "offered_tool",
    )
    for opaque in opaque_names:
        assert not re.search(f'"{opaque}": (?!null)', left)
    for each in hidden.events:
        mapper.decode_event(bytes(each))


def test_each_value_has_its_own_placeholder() -> None:
    email = RedactionRule(name="email", pattern=r"\S+@\S+\.example", replacement="person{n}@x.example")
    call, output = {"email": "ada@a.example"}, '{"mails":["bob@b.example","ada@a.example"]}'
    case = run_with(
        "I am ada@a.example",
        *given.build_tool_called([given.use("1", **call)]),
        given.build_tool_returned("1", output),
    )

    hidden = redact(case, email).fold_run()

    (made,) = hidden.rounds[0].calls
    assert hidden.user_text == "I am person1@x.example"
    assert made.input == {"email": "person1@x.example"}
    assert made.output == '{"mails":["person2@x.example","person1@x.example"]}'


@pytest.mark.parametrize(
    ("field", "hidden"),
    [
        ("get_order.input.email", ["email"]),
        ("get_order.output.customer.name", ["name"]),
        ("get_order.output.items.*.size", ["size"]),
        ("get_order.output.items.size", ["size"]),
        ("get_order.output.items.1.size", ["blue"]),
        ("get_order.output.customer", ["name", "phone"]),
        ("get_order.output.*.phone", ["phone"]),
        ("get_order.output.note.code", ["code"]),
        ("metadata.customer", ["crm"]),
        ("track.input.email", []),
    ],
)
def test_the_values_of_a_field_are_hidden_in_all_texts(field: str, hidden: list[str]) -> None:
    values = {
        "email": "ada@a.example",
        "name": "Ada Lovelace",
        "phone": "55501234",
        "size": "Mauve",
        "blue": "Bluish",
        "code": "XK-99",
        "crm": "CRM-4711",
    }
    output = {
        "customer": {"name": values["name"], "phone": int(values["phone"])},
        "items": [{"size": values["size"]}, {"size": values["blue"]}],
        "note": json.dumps({"code": values["code"]}),
    }
    text = f"ADA@a.example, {', '.join(values.values())}."
    described = events.ConversationDescribed(
        trace_id="d", at=given.AT, title=text, metadata={"customer": values["crm"]}
    )
    case = build_case(
        given.build_conversation_started(),
        described,
        given.build_user_message(text=text),
        given.build_run_started(),
        *given.build_tool_called([given.use("1", email=values["email"])]),
        given.build_tool_returned("1", json.dumps(output)),
        *given.build_delta(text, number=2),
        *given.build_answer(text),
    )
    rule = RedactionRule(field=field)

    found = redact(case, rule)

    left = b"".join(bytes(each) for each in found.events).decode().lower()
    gone = {name for name, value in values.items() if value.lower() not in left}
    assert gone >= set(hidden)
    assert gone - set(hidden) <= ({"blue"} if "size" in hidden else set())
    assert found.redacted == ((field,) if hidden else ())


def test_a_short_value_of_a_field_is_hidden_at_its_place_alone() -> None:
    case = run_with(
        "I want 3 of 3", *given.build_tool_called([given.use("1", quantity=3, to="Li", vip=True)])
    )
    found = redact(case, *(RedactionRule(field=f"get_order.input.{each}") for each in ("quantity", "vip")))

    run = found.fold_run()
    assert run.user_text == "I want 3 of 3"
    assert run.rounds[0].calls[0].input == {"quantity": "[quantity 1]", "to": "Li", "vip": "[vip 1]"}


def test_values_that_overlap_are_hidden_as_one() -> None:
    """No rule sees the placeholders of another, and no half of a value is left."""
    one, two = (
        RedactionRule(name="n", pattern="[0-9]+"),
        RedactionRule(name="card", pattern="card [0-9]{4}( plus)?"),
    )
    case = run_with("My card 1234 plus and 99, card 1234 plus")

    assert redact(case, one, two).fold_run().user_text == "My [n 1] and [n 2], [n 1]"
    assert redact(case, one, two).redacted == ("n", "card")


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        (RedactionRule(pattern="("), "redact[0]: missing )"),
        (RedactionRule(field="email"), "redact[0]: 'email' is no field"),
        (RedactionRule(field="get_order.inputs.email"), "redact[0]: 'get_order.inputs.email' is no field"),
    ],
)
def test_a_rule_that_cannot_be_used_is_named(rule: RedactionRule, named: str) -> None:
    with pytest.raises(UnfitSuite) as raised:
        CaseRedactor([rule])
    assert str(raised.value).startswith(f"suite.yaml: {named}")


def test_what_waits_for_a_person_names_the_call_as_it_is_shown() -> None:
    """Its hash is of the redacted input: one of the real input would confirm a guess."""
    reply, called, waits, decided = given.build_held_call()
    waits = msgspec.structs.replace(waits, input_sha256="ab")
    called = msgspec.structs.replace(called, input={"id": SECRET})
    case = run_with("Cancel", reply, called, waits, decided, given.build_tool_returned("call"))

    (call,) = redact(case, SECRETS).fold_run().rounds[0].calls
    digest = call.approvals[0].requested.input_sha256

    assert call.input == {"id": "[secret 1]"}
    assert digest == sha256(wire.encode_canonical(call.input)).hexdigest()


def test_a_value_that_goes_on_in_the_next_block_is_not_left() -> None:
    parts = (f"It is {SECRET[:3]}", f"{SECRET[3:]}.")
    blocks = [{"type": "text", "text": each} for each in parts]
    case = run_with("Who?", given.build_model_replied(blocks, number=1, stop_reason="end_turn"))
    found = redact(case, SECRETS)
    assert not GREEK.search(b"".join(bytes(each) for each in found.events).decode())
    (reply,) = [each for each in list_texts(found) if each["type"] == "model_replied.v1"]
    assert reply["blocks"] == [{"type": "text", "text": "It is [secret 1]."}]


@pytest.mark.parametrize("value", ["Q", "Ada Lovelace"])
def test_a_field_is_hidden_wherever_an_event_has_it(value: str) -> None:
    """In the model's block, a tool's question, a person's changed input and the first metadata."""
    common: dict[str, Any] = {"trace_id": given.trace(), "at": given.AT}
    reply, called, waits, decided = given.build_held_call()
    assert isinstance(reply, events.ModelReplied)
    assert isinstance(called, events.ToolCalled)
    assert isinstance(waits, events.ApprovalRequested)
    assert isinstance(decided, events.ApprovalDecided)
    called = msgspec.structs.replace(called, input={"pin": value})
    reply = msgspec.structs.replace(
        reply, blocks=tuple({**each, "input": {"pin": value}} for each in reply.blocks if "input" in each)
    )
    decided = msgspec.structs.replace(decided, input={"pin": f"{value}2"})
    asked = InputAsked(name=called.name, input={"pin": value}, key="k", message="Sure?")
    question = events.ElicitationRequested(
        **common | {name: getattr(waits, name) for name in DECISION_FIELDS}, approval_id="p-2", asked=asked
    )
    case = build_case(
        msgspec.structs.replace(given.build_conversation_started(), metadata={"pin": value}),
        given.build_user_message(),
        given.build_run_started(),
        *(reply, called, waits, question, decided, given.build_tool_returned("call")),
        *given.build_answer("Yes."),
    )

    found = redact(case, RedactionRule(field=f"{called.name}.input.pin"), RedactionRule(field="metadata.pin"))

    by_type = {each["type"]: each for each in reversed(list_texts(found))}
    assert by_type["conversation_started.v1"]["metadata"] == {"pin": "[pin 1]"}
    assert by_type["model_replied.v1"]["blocks"][0]["input"] == {"pin": "[pin 1]"}
    assert by_type["elicitation_requested.v1"]["asked"]["input"] == {"pin": "[pin 1]"}
    assert by_type["approval_decided.v1"]["input"] == {"pin": "[pin 2]"}
