"""The description of the API, and the span of a request."""

import html.parser
import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from contracts import errors
from gateway import app
from gateway.gateway_services import GatewayServices
from gateway.openapi import document as openapi
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts, StartGateway
from tests.system.collector import collector

Json = dict[str, Any]

_ENDPOINTS, _ONE = "/v1/webhook_endpoints", "/{endpoint_id}"


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def examples(document: Json) -> Iterator[tuple[Json, Any]]:
    """Each example with its schema. Those of a stream are its whole text, and so its events one by one."""
    for _, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                yield parameter["schema"], parameter["example"]
        answers = operation["responses"].values()
        for holder in (
            operation.get("requestBody", {}),
            *answers,
            *document["components"]["responses"].values(),
        ):
            for header in holder.get("headers", {}).values():
                if "example" in header:
                    yield header["schema"], header["example"]
            for media_type, content in holder.get("content", {}).items():
                values = [each["value"] for each in content.get("examples", {}).values()]
                values += [content["example"]] if "example" in content else []
                for value in values:
                    if media_type != "text/event-stream":
                        yield content["schema"], value
                        continue
                    lines = [line for line in value.split("\n") if line.startswith("data: {")]
                    events = [json.loads(line.removeprefix("data: ")) for line in lines]
                    schema = content["x-itemSchema"]["properties"]["data"]["contentSchema"]
                    if "anyOf" in schema:  # of our own two forms
                        form = "EventOfForm1" if events[0]["type"] == "meta" else "EventOfForm2"
                        schema = {"$ref": f"#/components/schemas/{form}"}
                    yield from ((schema, event) for event in events)


@pytest.mark.parametrize("admin", [False, True])
def test_the_document_is_openapi_and_its_examples_are_what_it_says(admin: bool) -> None:
    document = json.loads(json.dumps(openapi.document(admin)))
    OPENAPI_31_VALIDATOR.validate(document)
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    references = {part.split('"')[0] for part in json.dumps(document).split("#/components/schemas/")[1:]}
    assert references <= schemas.keys()
    checked = 0
    for schema, value in examples(document):
        whole = {**schema, "components": document["components"]}
        Draft202012Validator(whole, format_checker=FormatChecker()).validate(value)
        checked += 1
    assert checked > 100


def test_a_start_does_not_make_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than all else in a start."""
    made = list[bool]()
    monkeypatch.setattr(app, "document", lambda *, admin, agent_id: made.append(admin))
    app.build(cast(GatewayServices, SimpleNamespace(demo=None, admin=None)))
    assert made == []


def test_every_operation_tells_its_codes_and_headers() -> None:
    document = openapi.document(admin=True)
    told = set()
    names = set()
    for method, path, operation in operations(document):
        assert operation["summary"], path
        assert operation["tags"], path
        names.add(operation["operationId"])
        answers = operation["responses"]
        assert {"400", "500", "503"} <= answers.keys(), (method, path)
        assert ("401" in answers) == (operation.get("security", document["security"]) != [])
        for status, answer in answers.items():
            assert answer["description"], (method, path, status)
            assert "X-Trace-Id" in answer["headers"]
            assert status != "401" or "WWW-Authenticate" in answer["headers"]
            assert status not in ("429", "503") or "Retry-After" in answer["headers"]
            problem = answer.get("content", {}).get("application/problem+json", {})
            for code, example in problem.get("examples", {}).items():
                assert example["value"]["status"] == int(status) == errors.error(code).status
                told.add(code)
    assert len(names) == len([*operations(document)])
    told |= {"not_found", "method_not_allowed"}
    assert errors.ERRORS.keys() == told


async def test_the_document_is_served(client: Client) -> None:
    served = await client.http.get(f"{client.url}/openapi.json")
    document = served.json()
    assert document == json.loads(json.dumps(openapi.document()))
    assert {(method, path) for method, path, _ in operations(document)} == {
        ("post", "/v1/chat"),
        ("post", "/v1/chat/stream"),
        ("post", "/v1/chat/{trace_id}/cancel"),
        ("get", "/v1/chat/{trace_id}/events"),
        ("get", "/v1/approvals"),
        ("get", "/v1/approvals/{approval_id}"),
        ("post", "/v1/approvals/{approval_id}/decision"),
        *(("get", f"{_ENDPOINTS}{path}") for path in ("", _ONE, f"{_ONE}/deliveries")),
        ("get", f"{_ENDPOINTS}{_ONE}/deliveries/{{delivery_id}}"),
        *(("post", f"{_ENDPOINTS}{_ONE}/{what}") for what in ("rotate_secret", "test", "replay")),
        ("post", f"{_ENDPOINTS}/deliveries/{{delivery_id}}/resend"),
        ("post", f"{_ENDPOINTS}/{{endpoint_id}}/deliveries/{{delivery_id}}/resend"),
        *(("post", _ENDPOINTS), ("patch", f"{_ENDPOINTS}{_ONE}"), ("delete", f"{_ENDPOINTS}{_ONE}")),
        ("get", "/v1/conversations"),
        ("get", "/v1/conversations/{conversation_id}"),
        ("patch", "/v1/conversations/{conversation_id}"),
        ("delete", "/v1/conversations/{conversation_id}"),
        ("get", "/v1/conversations/{conversation_id}/messages"),
        ("post", "/v1/conversations/{conversation_id}/fork"),
        *((method, "/v1/messages/{message_id}/feedback") for method in ("post", "get", "delete")),
        ("post", "/openai/v1/chat/completions"),
        ("get", "/openai/v1/models"),
        ("get", "/openai/v1/models/{model}"),
        ("post", "/openai/v1/responses"),
        ("get", "/openai/v1/responses/{response_id}"),
        ("post", "/openai/v1/responses/{response_id}/cancel"),
        ("post", "/ai-sdk/v1/agents/{agent}/chat"),
        ("get", "/ai-sdk/v1/agents/{agent}/chat/{chat_id}/stream"),
        ("post", "/ag-ui/v1/agents/{agent}"),
        ("get", "/"),
        *(("get", path) for path in ("/healthz", "/readyz", "/openapi.json", "/docs", "/v1/oauth/callback")),
        ("get", "/v1/oauth/callback/{issuer}"),
    }


@pytest.mark.parametrize("admin", [False, True])
def test_generators_find_what_they_need(admin: bool) -> None:
    document = json.loads(json.dumps(openapi.document(admin)))
    schemas = document["components"]["schemas"]
    titles = [schema["title"] for schema in schemas.values() if "title" in schema]
    assert len(titles) == len(set(titles))
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in schemas)
    assert [*_wrong(document)] == []
    identifiers = [operation["operationId"] for _, _, operation in operations(document)]
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) for name in identifiers)
    headers = [
        parameter
        for _, _, operation in operations(document)
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "header"
    ]
    assert {parameter["name"] for parameter in headers} >= {"X-Agent-Id", "Idempotency-Key"}
    assert not [each for each in headers if "format" in each["schema"]], "headers are texts"
    assert not [each for each in headers if each["name"] == "Idempotency-Key" and "example" in each]


def _wrong(value: Any, place: str = "") -> Iterator[str]:
    """Arrays that do not say of what, and properties that have a default."""
    if isinstance(value, dict):
        if value.get("type") == "array" and not {"items", "prefixItems"} & value.keys():
            yield place
        if place.endswith("/properties"):
            yield from (f"{place}/{name}" for name, each in value.items() if "default" in each)
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in parts:
        if name not in ("example", "examples"):
            yield from _wrong(each, f"{place}/{name}")


@pytest.mark.parametrize("path", ["/openapi.json", "/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css"])
@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, br", True), ("br, gzip;q=0.5", True), ("identity", False), ("gzip;q=0", False)],
)
async def test_what_the_page_loads_is_compressed_for_who_takes_that(
    client: Client, path: str, accepted: str, packed: bool
) -> None:
    plain = await client.http.get(f"{client.url}{path}", headers={"Accept-Encoding": "identity"})
    served = await client.http.get(f"{client.url}{path}", headers={"Accept-Encoding": accepted})
    assert served.content == plain.content
    assert served.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert ("content-encoding" in served.headers) == packed
    assert (int(served.headers["content-length"]) < len(plain.content) / 3) == packed


async def test_the_page_tries_calls_out_and_asks_no_other_host(client: Client) -> None:
    page = await client.http.get(f"{client.url}/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(each.split(" ", 1) for each in page.headers["content-security-policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert set(" ".join(policy.values()).split()) <= {"'self'", "'none'", "'unsafe-inline'", "data:"}
    shown = Shown()
    shown.feed(page.text)
    assert shown.open == []
    assert not shown.tags & {"img", "iframe", "object", "style"}
    assert all(address.startswith("/") and address[:2] != "//" for address in shown.addresses)
    for address in shown.addresses:
        served = await client.http.get(f"{client.url}{address}")
        assert served.status_code == 200, address
        assert served.headers["x-content-type-options"] == "nosniff"
        assert served.headers["cross-origin-resource-policy"] == "same-origin"
    start = (await client.http.get(f"{client.url}/docs/start.js")).text
    assert 'url: "/openapi.json"' in start
    assert "validatorUrl: null" in start  # which is another host's otherwise
    assert "const key = null;" in start
    check_problem(await client.http.get(f"{client.url}/docs/swagger-ui-standalone.js"), 404, "not_found")


async def test_the_page_of_a_demo_has_its_key_and_its_agent(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts
) -> None:
    process = await start_gateway(
        AGENTCHAT_DEMO_KEY=accounts.free.key, AGENTCHAT_DEMO_AGENT_ID=accounts.free.agent
    )
    script = await http.get(f"{process.url}/docs/start.js")
    port = httpx.URL(process.url).port
    by_host = {
        host: (await http.get(f"{process.url}/docs/start.js", headers={"host": host})).text
        for host in (*_OWN, *(f"{each}:{port}" for each in _OWN), *_OF_OTHERS, f"{_OF_OTHERS[0]}:{port}")
    }
    document = (await http.get(f"{process.url}/openapi.json")).json()
    key = json.dumps(accounts.free.key)
    assert key in script.text
    assert script.headers["cross-origin-resource-policy"] == "same-origin"
    assert script.headers["cache-control"] == "no-store"
    assert {host for host, text in by_host.items() if key in text} == {
        host for host in by_host if host.startswith(_OWN) and host not in _OF_OTHERS
    }
    assert "const key = null;" in by_host["rebound.example"]
    (agent,) = [
        each for each in document["paths"]["/v1/chat"]["post"]["parameters"] if each["name"] == "X-Agent-Id"
    ]
    assert agent["example"] == accounts.free.agent


_OWN = ("localhost", "127.0.0.1", "[::1]", "LOCALHOST")
_OF_OTHERS = ("rebound.example", "127.0.0.1.rebound.example", "localhost.rebound.example", "localhost@x", "")


class Shown(html.parser.HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in ("meta", "link", "html"):
            self.open.append(tag)
        for name, value in attrs:
            if name in ("href", "src", "action") and value != "data:,":
                self.addresses.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag != "html":
            assert self.open.pop() == tag


async def test_a_request_is_a_span_with_route_and_status(
    http: httpx.AsyncClient, start_gateway: StartGateway, accounts: Accounts
) -> None:
    theirs = "4bf92f3577b34da6a3ce929d0e0e4736"
    with collector() as spans:
        process = await start_gateway(OTEL_EXPORTER_OTLP_ENDPOINT=spans.endpoint)
        response = await accounts.free.at(http, process).post(
            "/v1/chat/stream", content=b"{}", traceparent=f"00-{theirs}-00f067aa0ba902b7-01"
        )
        process.terminate()
        assert await process.wait() == 0
        ((_, span),) = spans.spans_of(response.headers["x-trace-id"], {"gateway"}, 0)
    assert span.name == "POST /v1/chat/stream"
    assert "http.response.status_code" in {each.key for each in span.attributes}
    assert [link.trace_id.hex() for link in span.links] == [theirs]
