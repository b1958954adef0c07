"""A field of the chat body is one thing: in the API, on its page, in the hash of a request and on the bus."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields, replace

from agentchat.contracts.events import STARTED_WITH
from agentchat.contracts.http import ChatBody
from agentchat.contracts.messages import ChatRequested, RunInput
from agentchat.conversations.queries.conversation_filters import ConversationRow
from agentchat.gateway.runs.request_hash import hash_request
from agentchat.gateway.runs.run_request import RunRequest
from tests.contracts.wire_examples import MESSAGE_EXAMPLES
from tests.gateway.test_openapi import fetch_document

BODY = {field.name: field.required for field in fields(ChatBody)}
SPECIFIED = {"message": True, "conversation_id": False, "prompt": False}
"""The fields of the interface specification, and whether they are required."""
PASSED_ON = [name for name in BODY if name not in ("conversation_id", "secrets", "attachments")]
OTHER: dict[str, Any] = {"on_busy": "steer", "client_tools": ({"name": "a"},)}


def test_the_specified_fields_are_the_bodys() -> None:
    assert {name: BODY[name] for name in SPECIFIED} == SPECIFIED
    assert [name for name, required in BODY.items() if required] == ["message"]


def test_schema_and_page_have_the_bodys_fields() -> None:
    described = fetch_document(admin=False)["components"]["schemas"]["ChatBody"]["properties"]
    page = Path("docs/integrate/api.md").read_text()
    table = page.partition("## Sending a message")[2].partition("Unknown fields")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert described.keys() == set(re.findall(r"`(\w+)`", " ".join(rows))) == BODY.keys()


@pytest.mark.parametrize("name", PASSED_ON)
def test_a_field_reaches_the_worker_and_the_hash(name: str) -> None:
    assert name in RunRequest.__struct_fields__
    assert name in ChatRequested.__struct_fields__
    (request,) = (each for each in MESSAGE_EXAMPLES if isinstance(each, ChatRequested))
    other = replace(request, **{name: OTHER.get(name, {"a": "b"})})
    assert hash_request(other, ()) != hash_request(request, ())


def test_a_new_conversations_fields_are_returned() -> None:
    labels = {name for name in BODY if name in STARTED_WITH}
    assert labels <= set(ConversationRow.__struct_fields__)
    assert labels <= set(RunInput.__struct_fields__)
