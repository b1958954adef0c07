"""Operations from handlers: what Litestar generates, completed by what `described` says."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Reference
from litestar.params import BodyKwarg
from litestar.plugins import OpenAPISchemaPlugin
from litestar.routes import HTTPRoute
from litestar.types import ControllerRouterHandler

from contracts import wire
from gateway.gateway_request import GatewayRequest
from gateway.openapi.described import Description, description_of, descriptions_before
from gateway.openapi.documented_refusals import EVERYWHERE, OF_BODIES, TRACE_ID, refusals
from gateway.protocols import wording_at

Json = dict[str, Any]


class Structs(OpenAPISchemaPlugin):
    """Structs are references; `types` are those that were met, whose schemas are msgspec's own to make."""

    def __init__(self) -> None:
        self.types: dict[type, None] = {}

    def is_plugin_supported_field(self, field_definition: Any) -> bool:
        """Whether it is a Struct."""
        return not field_definition.is_union and field_definition.is_subclass_of(msgspec.Struct)

    def to_openapi_schema(self, field_definition: Any, schema_creator: Any) -> Any:
        """A reference. Litestar needs its schema registered; what that holds does not matter."""
        self.types[field_definition.annotation] = None
        registry = schema_creator.schema_registry
        registry.get_schema_for_field_definition(field_definition)
        reference = registry.get_reference_for_field_definition(field_definition)
        assert isinstance(reference, Reference)
        return reference


def generate(routes: Sequence[ControllerRouterHandler]) -> tuple[Json, dict[type, None]]:
    """The path items of these routes, and the Structs to which Litestar made references."""
    structs = Structs()
    config = OpenAPIConfig(title="", version="")
    app = Litestar(
        routes, openapi_config=config, plugins=[structs], request_class=GatewayRequest, logging_config=None
    )
    paths: Json = app.openapi_schema.to_schema()["paths"]
    for path, method, handler in _handlers(app):
        if path in paths and method in paths[path]:
            paths[path][method] = _completed(paths[path][method], path, handler)
    return paths, structs.types


def _handlers(app: Litestar) -> Iterator[tuple[str, str, HTTPRouteHandler]]:
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for method, (handler, _) in route.route_handler_map.items():
                yield route.path_format, method.lower(), handler


def _completed(operation: Json, path: str, handler: HTTPRouteHandler) -> Json:
    own, before = description_of(handler.fn), [*descriptions_before(handler)]
    every = [*before, own]
    given = [_plain(each) for each in operation.get("parameters", ())]
    described = [each for one in every for each in one.parameters]
    known = {(each["in"], each["name"]) for each in described}
    parameters = [*(each for each in given if (each["in"], each["name"]) not in known), *described]
    return {
        "security": [],
        **_plain(operation),
        **({"parameters": parameters} if parameters else {}),
        **_body(handler),
        "responses": _answers(operation["responses"], handler, path, own, before),
    }


def _body(handler: HTTPRouteHandler) -> Json:
    """The Request Body Object, with what Litestar leaves out of it."""
    data = handler.parsed_data_field
    if data is None:
        return {}
    kind = data.inner_types[0] if data.is_optional else data
    schema, body = kind.annotation, data.kwarg_definition
    assert isinstance(body, BodyKwarg)
    content: Json = {"schema": {"allOf": [schema, body.schema_extra]} if body.schema_extra else schema}
    content["examples"] = {
        each.id: {"value": _json(each.value), **({"summary": each.summary} if each.summary else {})}
        for each in body.examples or ()
    }
    described = {"description": body.description} if body.description else {}
    required = not data.is_optional
    return {"requestBody": {"required": required, **described, "content": {"application/json": content}}}


def _answers(
    generated: Json, handler: HTTPRouteHandler, path: str, own: Description, before: Sequence[Description]
) -> Json:
    """By status: the success, what else the handler says that it answers, and the refusals."""
    status = str(handler.status_code)
    common = {name: header for each in before for name, header in each.headers.items()}
    of_bodies = OF_BODIES if handler.parsed_data_field is not None else ()
    codes = [*EVERYWHERE, *of_bodies, *(code for each in (*before, own) for code in each.refusals)]
    answers = refusals(*codes, headers=common, wording=wording_at(path))
    success = _success(generated[status], {**common, **own.headers}, own)
    for other, answer in generated.items():
        if other in answers and other != "400":  # which Litestar adds for errors that it does not meet here
            answers[other]["content"] |= answer["content"]
            answers[other]["description"] = f"{answer['description']}; {answers[other]['description']}"
    more = {other: {**answer, "headers": TRACE_ID} for other, answer in generated.items() if other < "300"}
    return dict(sorted({**answers, **more, status: success}.items()))


def _success(answer: Json, headers: Mapping[str, Any], own: Description) -> Json:
    success = {**answer, "headers": {**TRACE_ID, **headers}}
    if own.content:
        success["content"] = {name: _media(name, schema) for name, schema in own.content.items()}
    for media_type, content in success.get("content", {}).items():
        is_text = media_type.startswith("text/")
        chosen = {name: value for name, value in own.examples.items() if isinstance(value, str) == is_text}
        content["examples"] = {name: {"value": _json(value)} for name, value in chosen.items()}
    return success


def _media(media_type: str, schema: Any) -> Json:
    """A Media Type Object. A stream is a text; for its events OpenAPI 3.1 has no `itemSchema`, as 3.2 has."""
    if media_type != "text/event-stream":
        return {"schema": schema}
    return {"schema": {"type": "string"}, "x-itemSchema": schema}


def _plain(described: Json) -> Json:
    """Without what says nothing."""
    return {name: value for name, value in described.items() if (name, value) != ("deprecated", False)}


def _json(value: Any) -> Any:
    return value if isinstance(value, str) else json.loads(wire.encode(value))
