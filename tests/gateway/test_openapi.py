"""The description of the API, and the span of a request."""

import functools
import html.parser
import json
import socket
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from agentchat.administration.routes import ROUTES as ADMIN_ROUTES
from agentchat.gateway import app, openapi
from agentchat.gateway.admin.admin_services import AdminAccess
from tests.gateway.client import Client
from tests.gateway.conftest import Accounts, StartGateway

Json = dict[str, Any]


@functools.cache
def fetch_document(*, admin: bool) -> Json:
    access = AdminAccess(token=b"token", admin=cast(Any, None)) if admin else None
    services = cast(Any, SimpleNamespace(demo=None))
    built = app.build(services, access)
    described: Json = json.loads(openapi.encode_document(built.app, None))
    return described


@pytest.mark.parametrize("admin", [False, True])
def test_document_is_valid_openapi(admin: bool) -> None:
    from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR  # a slow import

    described = fetch_document(admin=admin)
    OPENAPI_31_VALIDATOR.validate(described)
    references = {part.split('"')[0] for part in json.dumps(described).split("#/components/schemas/")[1:]}
    assert references <= described["components"]["schemas"].keys()


def test_generated_clients_find_classes_by_their_names() -> None:
    names = {"Approval", "ApprovalTool", "ClientToolCall", "Feedback", "FeedbackSummary", "TokenCounts"}
    for admin in (False, True):
        assert names | {"ToolCall"} <= fetch_document(admin=admin)["components"]["schemas"].keys()


def test_document_has_every_route() -> None:
    operations = [
        operation
        for methods in fetch_document(admin=True)["paths"].values()
        for operation in methods.values()
    ]
    identifiers = {operation["operationId"] for operation in operations}
    assert len(identifiers) == len(operations)
    assert len([each for each in operations if each["tags"] == ["admin"]]) == len(ADMIN_ROUTES)
    for operation in operations:
        assert operation["summary"]
        assert operation["tags"]
        assert {"400", "401", "404", "429", "503"} <= operation["responses"].keys()


def test_refusals_are_described_in_the_form_of_their_address() -> None:
    paths = fetch_document(admin=False)["paths"]
    for path, media_type in (
        ("/v1/chat", "application/problem+json"),
        ("/openai/v1/chat/completions", "application/json"),
        ("/ai-sdk/v1/agents/{agent}/chat", "text/plain"),
    ):
        assert [*paths[path]["post"]["responses"]["429"]["content"]] == [media_type]


def test_deletions_that_continue_are_answered_with_202() -> None:
    deletions = {
        path: methods["delete"]["responses"].keys()
        for path, methods in fetch_document(admin=True)["paths"].items()
        if path.startswith("/admin/") and "delete" in methods
    }
    continuing = {path.rpartition("/")[2] for path, answers in deletions.items() if "202" in answers}
    assert continuing == {"{account_id}", "{user}"}


async def test_document_is_served_without_admin_routes(client: Client) -> None:
    served = (await client.http.get(f"{client.url}/openapi.json")).json()
    assert served == fetch_document(admin=False)
    assert not [path for path in served["paths"] if path.startswith("/admin/")]


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
    fetch_document = (await http.get(f"{process.url}/openapi.json")).json()
    key = json.dumps(accounts.free.key)
    assert key in script.text
    assert script.headers["cross-origin-resource-policy"] == "same-origin"
    assert script.headers["cache-control"] == "no-store"
    assert {host for host, text in by_host.items() if key in text} == {
        host for host in by_host if host.startswith(_OWN) and host not in _OF_OTHERS
    }
    assert "const key = null;" in by_host["rebound.example"]
    forwarded = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "X-Forwarded-Proto")
    for name in forwarded:
        by_proxy = await http.get(f"{process.url}/docs/start.js", headers={name: "203.0.113.9"})
        assert "const key = null;" in by_proxy.text, name

    assert accounts.free.agent in json.dumps(fetch_document)


async def test_demo_key_needs_a_loopback_connection(start_gateway: StartGateway, accounts: Accounts) -> None:
    process = await start_gateway(
        AGENTCHAT_HOST="0.0.0.0",
        AGENTCHAT_DEMO_KEY=accounts.free.key,
        AGENTCHAT_DEMO_AGENT_ID=accounts.free.agent,
    )
    own = _find_own_address()
    if own is None:
        pytest.skip("this machine has no address but loopback")
    url = httpx.URL(process.url).copy_with(host=own)
    async with httpx.AsyncClient() as http:
        script = await http.get(f"{url}/docs/start.js", headers={"host": "localhost"})
    assert "const key = null;" in script.text


def _find_own_address() -> str | None:
    """Return an address of this machine that is not loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


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


async def test_front_page_leads_to_the_documentation(client: Client) -> None:
    answer = await client.http.get(f"{client.url}/")
    assert (answer.status_code, answer.headers["location"]) == (302, "/docs")
    assert (await client.http.get(f"{client.url}/docs")).status_code == 200
