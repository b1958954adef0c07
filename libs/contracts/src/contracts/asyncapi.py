"""The AsyncAPI 3 document of the bus, made of `channels` and the types; `make site` writes it.

It describes the whole service: it sends what one of its own processes sends, and receives likewise.
"""

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import msgspec

from contracts import events, schemas
from contracts.channels import CHANNELS, HEADERS, PARAMETERS, Channel

JSON = dict[str, Any]
_Type = type[msgspec.Struct]

_OUTSIDE = ("consumers", "operators")
_PARAMETER = re.compile(r"\{(\w+)\}")

_ABOUT = (
    "What Agent Chat Service publishes on NATS. Channels tagged `public` are for integrators: `events` above "
    "all, which carries every stored event once. The others connect the service's own processes, and may "
    "change with any version. Generated from the package `contracts`; see docs/analyse/consumers.md."
)


def document() -> JSON:
    """The document, as JSON values."""
    references, components = schemas.components("#/components/schemas/{name}")
    return {
        "asyncapi": "3.1.0",
        "id": "urn:agentchat:bus",
        "info": {"title": "Agent Chat Service: the bus", "version": _version(), "description": _ABOUT},
        "defaultContentType": "application/json",
        "servers": {
            "nats": {
                "host": "{address}",
                "protocol": "nats",
                "description": "NATS with JetStream, 2.11 or newer.",
                "variables": {"address": {"default": "localhost:4222", "description": "Host and port."}},
            }
        },
        "channels": dict(_channels()),
        "operations": dict(_operations()),
        "components": {
            "messages": {_name(cls): _message(cls, reference) for cls, reference in references.items()},
            "schemas": components,
        },
    }


def _channels() -> Iterator[tuple[str, JSON]]:
    for channel in CHANNELS:
        described: JSON = {
            "address": channel.address,
            "summary": channel.summary,
            "description": _kept(channel),
            "messages": _references(channel.carries),
            "tags": [{"name": "internal" if channel.inner else "public"}],
        }
        if parameters := _PARAMETER.findall(channel.address):
            described["parameters"] = {name: _parameter(name) for name in parameters}
        if channel.stream is not None:
            described["x-jetstream"] = msgspec.to_builtins(channel.stream)
        yield channel.name, described
        if channel.replies:
            yield (
                f"{channel.name}Replies",
                {
                    "address": None,
                    "summary": f"Replies on {channel.name}.",
                    "description": "The reply subject of the request.",
                    "messages": _references(channel.replies),
                    "tags": [{"name": "internal"}],
                },
            )


def _operations() -> Iterator[tuple[str, JSON]]:
    for channel in CHANNELS:
        for action, services in (("send", channel.sent_by), ("receive", channel.received_by)):
            if services in _OUTSIDE:
                continue
            operation: JSON = {
                "action": action,
                "channel": {"$ref": f"#/channels/{channel.name}"},
                "summary": f"{services}: {channel.summary}",
                "messages": _of_channel(channel.name, channel.carries),
            }
            if channel.replies:
                operation["reply"] = {
                    "address": {
                        "location": "$message.header#/reply",
                        "description": "NATS carries it next to the headers, as the message's reply subject.",
                    },
                    "channel": {"$ref": f"#/channels/{channel.name}Replies"},
                    "messages": _of_channel(f"{channel.name}Replies", channel.replies),
                }
            yield f"{action}{channel.name[0].upper()}{channel.name[1:]}", operation


def _message(cls: _Type, reference: JSON) -> JSON:
    about = schemas.description_of(cls)
    headers = {name: HEADERS[name] for name in _headers(cls)}
    described: JSON = {
        "name": cls.__name__,
        "title": cls.__name__,
        "summary": about.partition("\n")[0],
        "description": about,
        "contentType": "application/json",
        "payload": reference,
        "examples": [
            {
                "name": cls.__name__,
                "headers": {name: header.example for name, header in headers.items()},
                "payload": schemas.example_of(cls),
            }
        ],
    }
    if headers:
        described["headers"] = {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": header.description, "pattern": header.pattern}
                for name, header in headers.items()
            },
            "required": [name for name in headers if name != "traceparent"],
        }
    if "trace_id" in cls.__struct_fields__:
        described["correlationId"] = {"location": "$message.payload#/trace_id"}
    return described


def _headers(cls: _Type) -> tuple[str, ...]:
    """Those of the channel that carries it; a reply has none."""
    return next((channel.headers for channel in CHANNELS if cls in channel.carries), ())


def _kept(channel: Channel) -> str:
    route = f"Sent by {channel.sent_by}, received by {channel.received_by}."
    stream = channel.stream
    if stream is None:
        return f"{route} Request and reply, kept nowhere."
    if stream.max_age is None:
        return f"{route} In the stream {stream.name} until it is acknowledged."
    days, minutes = divmod(stream.max_age // 60, 24 * 60)
    return f"{route} In the stream {stream.name} for {f'{days} days' if days else f'{minutes} minutes'}."


def _parameter(name: str) -> JSON:
    described: JSON = {"description": PARAMETERS[name]}
    if name == "event_name":
        described["enum"] = [cls.__name__ for cls in events.EVENTS]
    return described


def _references(classes: tuple[_Type, ...]) -> JSON:
    return {_name(cls): {"$ref": f"#/components/messages/{_name(cls)}"} for cls in classes}


def _of_channel(channel: str, classes: tuple[_Type, ...]) -> list[JSON]:
    return [{"$ref": f"#/channels/{channel}/messages/{_name(cls)}"} for cls in classes]


def _name(cls: _Type) -> str:
    """With its module, because an event and a frame may share a name."""
    return f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"


def _version() -> str:
    return version("agentchat-contracts")


if __name__ == "__main__":
    import sys
    from pathlib import Path

    folder = Path(sys.argv[1])
    for name, content in {**schemas.schema_files(), "asyncapi.json": schemas.as_text(document())}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
