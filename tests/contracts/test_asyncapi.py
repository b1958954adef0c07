"""The AsyncAPI document and the JSON Schemas: complete, and valid by third parties' judgement."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pydantic
import pytest
from pydantic_asyncapi.v3 import AsyncAPI

from bus.streams import STREAMS
from contracts import asyncapi, events, examples, frames, messages, schemas, subjects, wire
from contracts.channels import CHANNELS

FILES = schemas.schema_files()
DOCUMENT = json.loads(schemas.as_text(asyncapi.document()))

_FILLED = {
    "account_id": examples.ACCOUNT,
    "trace_id": examples.TRACE,
    "call_id": examples.CALL,
    "event_name": "MessageSaved",
    "stream": "REQUESTS",
}


def test_the_files_of_the_site_are_written(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "contracts.asyncapi", tmp_path], check=True)
    written = {path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*.json")}
    assert written == {**FILES, "asyncapi.json": schemas.as_text(asyncapi.document())}


def test_the_document_is_valid_asyncapi_3() -> None:
    read = AsyncAPI.model_validate(copy.deepcopy(DOCUMENT))
    assert read.channels is not None
    assert read.asyncapi.startswith("3.")
    assert len(read.channels) == len(CHANNELS) + sum(bool(channel.replies) for channel in CHANNELS)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("asyncapi",), "2.6.0"),
        (("info", "title"), None),
        (("operations", "sendEvents", "action"), "publish"),
        (("operations", "sendEvents", "channel"), "events"),
        (("servers", "nats", "protocol"), 4222),
        (("components", "messages", "events.Delta", "correlationId", "location"), "trace_id"),
    ],
)
def test_the_validator_refuses_a_document_that_is_wrong(path: tuple[str, ...], value: object) -> None:
    wrong = copy.deepcopy(DOCUMENT)
    place: Any = wrong
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(pydantic.ValidationError):
        AsyncAPI.model_validate(wrong)


def test_every_reference_leads_somewhere() -> None:
    references = set(_references(DOCUMENT))
    assert "#/components/schemas/Usage" in references
    for reference in references:
        place: Any = DOCUMENT
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]
        assert isinstance(place, dict), reference


@pytest.mark.parametrize("name", FILES)
def test_a_schema_is_valid_and_takes_its_example(name: str) -> None:
    schema = json.loads(FILES[name])
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    (example,) = schema["examples"]
    validator.validate(example)
    for field in schema["required"]:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({key: value for key, value in example.items() if key != field})


def test_a_message_of_the_document_takes_its_example_with_its_headers() -> None:
    for message in DOCUMENT["components"]["messages"].values():
        (example,) = message["examples"]
        whole = {"components": DOCUMENT["components"]}
        jsonschema.Draft7Validator(whole | {"allOf": [message["payload"]]}).validate(example["payload"])
        if "headers" in message:
            jsonschema.Draft7Validator(message["headers"]).validate(example["headers"])


def test_every_type_on_the_bus_has_a_channel() -> None:
    carried = [cls for channel in CHANNELS for cls in (*channel.carries, *channel.replies)]
    assert len(carried) == len(set(carried))
    assert set(carried) == {*events.EVENTS, *frames.FRAMES, *messages.MESSAGES}


def test_the_examples_are_those_on_the_wire() -> None:
    described = DOCUMENT["components"]["messages"]["events.MessageSaved"]["examples"][0]["payload"]
    assert wire.decode_event(msgspec.json.encode(described)) in examples.EVENT_EXAMPLES


def test_the_addresses_are_those_that_services_use() -> None:
    filled = {channel.name: channel.address.format_map(_FILLED) for channel in CHANNELS}
    assert filled == {
        "events": subjects.events(examples.ACCOUNT, "MessageSaved"),
        "dead": subjects.dead("REQUESTS"),
        "traces": subjects.trace(examples.TRACE),
        "requests": subjects.requests(examples.ACCOUNT),
        "cancellations": subjects.cancel(examples.TRACE),
        "toolRequests": subjects.tool_requests(examples.TRACE),
        "toolResults": subjects.tool_result(examples.TRACE, examples.CALL),
        "toolProgress": subjects.tool_progress(examples.TRACE, examples.CALL),
        "commands": subjects.commands(examples.ACCOUNT),
        "toolLists": subjects.TOOLS_LIST,
        "toolChecks": subjects.TOOLS_CHECK,
        "toolCalls": subjects.TOOLS_CALL,
        "toolAuthorizations": subjects.TOOLS_AUTHORIZE,
        "toolAuthorizationAnswers": subjects.TOOLS_AUTHORIZED,
        "modelChecks": subjects.MODELS_CHECK,
        "whatIf": subjects.WHAT_IF,
    }


def test_the_streams_are_those_that_are_provisioned() -> None:
    provisioned = {stream["name"]: stream for stream in STREAMS}
    for channel in CHANNELS:
        if channel.stream is not None:
            real = provisioned[channel.stream.name]
            assert real["retention"] == channel.stream.retention
            assert real["storage"] == channel.stream.storage
            assert real["max_age"] == (channel.stream.max_age or 0) * 1_000_000_000
            prefix = channel.address.partition("{")[0]
            assert any(subject.startswith(prefix) for subject in real["subjects"])


def _references(value: object) -> list[str]:
    match value:
        case dict():
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for item in value.values() for found in _references(item)]
        case list():
            return [found for item in value for found in _references(item)]
        case _:
            return []
