"""Who may do what: one table of all routes, tried with each role and with none."""

import asyncio
import re
from collections.abc import AsyncIterator
from html import unescape

import httpx
import psycopg
import pytest
from litestar import Litestar, get
from litestar.handlers import HTTPRouteHandler
from litestar.middleware.csrf import generate_csrf_token

from agentchat.administration import Admin
from agentchat.console import app
from agentchat.console.shared import oidc
from agentchat.console.shared.console_roles import Rights, Role
from agentchat.console.shared.sessions import Person, Sessions
from agentchat.console.sign_in_settings import SignInSettings
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import open_log
from agentchat.directory.secret_encryption import build_sealer
from agentchat.runtime.postgres import Pool
from tests.console.embedded import TOKEN, URL
from tests.console.pages import extract_text
from tests.conversations.read_models import Storage
from tests.support.embedded_service import EmbeddedService
from tests.tenants import make_tenant

pytestmark = pytest.mark.filterwarnings("ignore::litestar.exceptions.LitestarDeprecationWarning")

ROLES: dict[str, Role | None] = {
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /sign-in": None,
    "POST /sign-in": None,
    "GET /sign-in/begin": None,
    "GET /sign-in/callback": None,
    "POST /sign-out": Role.VIEWER,
    "GET /": Role.VIEWER,
    "GET /now": Role.VIEWER,
    "GET /now/stream": Role.VIEWER,
    "GET /conversations": Role.VIEWER,
    "GET /conversations/new": Role.VIEWER,
    "GET /conversations.csv": Role.VIEWER,
    "GET /conversations/{conversation_id}": Role.VIEWER,
    "GET /conversations/{conversation_id}/stream": Role.VIEWER,
    "GET /conversations/{conversation_id}/events": Role.VIEWER,
    "GET /conversations/{conversation_id}/events/{version}": Role.VIEWER,
    "GET /conversations/{conversation_id}/files/{file_id}": Role.VIEWER,
    "GET /conversations/{conversation_id}/case": Role.VIEWER,
    "POST /conversations/{conversation_id}/cancel": Role.OPERATOR,
    "POST /conversations/{conversation_id}/delete": Role.OWNER,
    "GET /traces/{trace_id}": Role.VIEWER,
    "GET /runs": Role.VIEWER,
    "GET /runs.csv": Role.VIEWER,
    "GET /accounts.csv": Role.VIEWER,
    "GET /accounts/{account_id}/usage.csv": Role.VIEWER,
    "GET /accounts/{account_id}/users.csv": Role.VIEWER,
    "GET /approvals": Role.VIEWER,
    "GET /approvals/news": Role.VIEWER,
    "GET /approvals/{approval_id}": Role.VIEWER,
    "POST /approvals/{approval_id}/decision": Role.APPROVER,
    "GET /what-if": Role.OPERATOR,
    "POST /what-if": Role.OPERATOR,
    "GET /what-if/{what_if_id}": Role.OPERATOR,
    "GET /what-if/{what_if_id}/stream": Role.OPERATOR,
    "POST /what-if/{what_if_id}/stop": Role.OPERATOR,
    "GET /playground": Role.OPERATOR,
    "POST /playground": Role.OPERATOR,
    "POST /playground/stop": Role.OPERATOR,
    "GET /playground/stream": Role.OPERATOR,
    "GET /agents": Role.VIEWER,
    "GET /agents/new": Role.OPERATOR,
    "POST /agents/new": Role.OPERATOR,
    "GET /agents/{agent_id}": Role.VIEWER,
    "POST /agents/{agent_id}": Role.OPERATOR,
    "GET /agents/{agent_id}/diff": Role.VIEWER,
    "POST /agents/{agent_id}/restore": Role.OPERATOR,
    "GET /agents/{agent_id}/canary": Role.VIEWER,
    "POST /agents/{agent_id}/canary": Role.OPERATOR,
    "POST /agents/{agent_id}/check": Role.OPERATOR,
    "POST /agents/{agent_id}/delete": Role.OWNER,
    "GET /agents/{agent_id}/servers/{name}": Role.OPERATOR,
    "POST /agents/{agent_id}/servers/{name}": Role.OPERATOR,
    "GET /knowledge": Role.VIEWER,
    "POST /knowledge": Role.OPERATOR,
    "GET /knowledge/{base_id}": Role.VIEWER,
    "POST /knowledge/{base_id}/documents": Role.OPERATOR,
    "POST /knowledge/{base_id}/documents/{document_id}/delete": Role.OWNER,
    "GET /accounts": Role.VIEWER,
    "POST /accounts": Role.OWNER,
    "GET /accounts/{account_id}": Role.VIEWER,
    "POST /accounts/{account_id}": Role.OWNER,
    "POST /accounts/{account_id}/delete": Role.OWNER,
    "GET /accounts/{account_id}/user": Role.VIEWER,
    "POST /accounts/{account_id}/user": Role.OWNER,
    "POST /accounts/{account_id}/keys": Role.OWNER,
    "POST /accounts/{account_id}/keys/{key_id}": Role.OWNER,
    "GET /plans/{name}": Role.OWNER,
    "POST /plans/{name}": Role.OWNER,
    "GET /webhooks": Role.VIEWER,
    "GET /webhooks/{endpoint_id}": Role.VIEWER,
    "POST /webhooks/{endpoint_id}/switch": Role.OPERATOR,
    "POST /webhooks/{endpoint_id}/deliveries/{delivery_id}/resend": Role.OPERATOR,
    "GET /audit": Role.OWNER,
    "GET /health": Role.VIEWER,
}
ENDS_SESSION = "POST /sign-out"
"""Not tried with the others, whose session it would end; tests/console has its own test of it."""
GUARDED = {route: role for route, role in ROLES.items() if role is not None and route != ENDS_SESSION}
ACTIONS = [route for route in GUARDED if route.startswith("POST ")]
_ID = "019ac9e4-0000-7000-8000-000000000000"
_ELSEWHERE = {
    "POST /accounts/{account_id}/user",  # test_directory_pages has an end user
    *("POST /what-if/{what_if_id}/stop", "POST /playground/stop"),
}
"""Buttons of runs that go on: tests/system has them."""


class Visitor:
    """Somebody with a role, or with none."""

    def __init__(
        self, console: EmbeddedService, role: Role | None, cookies: dict[str, str], token: str
    ) -> None:
        sent = "; ".join(f"__Host-agentchat_console{name}={value}" for name, value in cookies.items())
        headers = {"host": "console.example", "cookie": sent}
        self.role, self.form_token = role, token
        limits = httpx.Limits(max_connections=8)
        self.http = httpx.AsyncClient(base_url=console.url, headers=headers, timeout=30, limits=limits)

    @classmethod
    async def open_session(
        cls,
        console: EmbeddedService,
        pool: Pool,
        secret_key: str,
        role: Role | None,
        token_name: str | None = None,
    ) -> "Visitor":
        settings = SignInSettings(admin_token=TOKEN, console_url=URL)
        sessions = Sessions(pool, build_sealer(secret_key), settings, secret_key)
        token = generate_csrf_token(sessions.secret.hex())
        cookies = {"_forms": token}
        if role is not None:
            cookies[""] = await sessions.start(Person(name=role.word, role=role, token_name=token_name))
        return cls(console, role, cookies, token)

    async def answer(self, route: str, **fields: str) -> httpx.Response:
        """What a route answers, of a stream its beginning. Actions are sent with the session's token."""
        method, path = route.split(" ")
        path = re.sub(r"{version}", "1", path)
        path = re.sub(r"{\w+}", _ID, path)
        data = {"_csrf_token": self.form_token, **fields} if method == "POST" else None
        async with self.http.stream(method, path, data=data) as response:
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                await response.aread()
            return response


@pytest.fixture(scope="module")
async def visitors(
    guarded_console: EmbeddedService, environ: dict[str, str], pool: Pool
) -> AsyncIterator[dict[Role | None, Visitor]]:
    key = environ["AGENTCHAT_SECRET_KEY"]
    found = {role: await Visitor.open_session(guarded_console, pool, key, role) for role in (None, *Role)}
    yield found
    for each in found.values():
        await each.http.aclose()


def list_handlers() -> list[HTTPRouteHandler]:
    return [*app.FRAME, *oidc.HANDLERS, *(each for page in app.PAGES for each in page)]


def test_the_table_has_every_route_with_its_role() -> None:
    assert app.build_role_table(Litestar(list_handlers(), openapi_config=None).routes) == ROLES


def test_handler_without_a_role_prevents_the_start() -> None:
    @get("/secrets")
    async def get_secrets() -> None: ...

    made = Litestar([*list_handlers(), get_secrets], openapi_config=None)
    with pytest.raises(app.RoleMissing, match="the handler of /secrets has no role"):
        app.build_role_table(made.routes)


@pytest.mark.parametrize("role", [None, *Role], ids=lambda role: role.word if role else "nobody")
async def test_each_page_and_action_with_each_role(
    visitors: dict[Role | None, Visitor], role: Role | None
) -> None:
    visitor = visitors[role]
    answers = await asyncio.gather(*(visitor.answer(route) for route in GUARDED))
    for (route, needed), answer in zip(GUARDED.items(), answers, strict=True):
        if role is None and route in ACTIONS:
            assert (answer.status_code, "Your session has ended" in answer.text) == (401, True), route
        elif role is None:
            assert answer.headers["location"].startswith("/sign-in?next="), route
        elif role < needed:
            said = f"This needs the role {needed.word}; you are signed in as {role.word}."
            assert (answer.status_code, said in extract_text(answer.text)) == (403, True), route
        else:
            assert answer.status_code < 500, route
            assert answer.status_code not in (401, 403), route
            assert not answer.headers.get("location", "").startswith("/sign-in?"), route


async def test_each_action_needs_the_form_token(
    visitors: dict[Role | None, Visitor],
) -> None:
    owner = visitors[Role.OWNER]
    for route in ACTIONS:
        forged = await owner.answer(route, _csrf_token="0" * 128)
        assert (forged.status_code, "another site" in forged.text) == (403, True), route


@pytest.fixture(scope="module")
async def pages(visitors: dict[Role | None, Visitor], environ: dict[str, str], pool: Pool) -> list[str]:
    """The addresses of pages that have everything: keys, versions, tool servers, documents, deliveries."""
    owner, url = visitors[Role.OWNER], environ["AGENTCHAT_DATABASE_URL"]
    admin = Admin(pool=pool, sealer=build_sealer(environ["AGENTCHAT_SECRET_KEY"]), actor="test")
    async with open_store(url) as store, open_log(url) as log:
        tenant = await make_tenant(admin, Storage(store, log, pool, url), "okapi")
    tenant.ids["name"] = "tools"
    agent = tenant.fill("/agents/{agent_id}")
    server = {"name": "tools", "url": "http://127.0.0.1:9/mcp", "require_approval": "always"}
    server |= {"max_call_seconds": "60", "elicitation": "on", "_csrf_token": owner.form_token}
    saved = await owner.http.post(f"{agent}/servers/new", data=server)
    assert saved.status_code in (200, 303), extract_text(saved.text)
    with psycopg.connect(url) as conn:
        conn.execute(
            "INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, status)"
            " VALUES ('msg_1', %s, 'run.completed', 'failed')",
            [tenant.ids["endpoint_id"]],
        )
    shown = [tenant.fill(route.removeprefix("GET ")) for route in GUARDED if _is_page(route)]
    chosen = f"agent={tenant.ids['agent_id']}"
    return [
        *(path.replace("/diff", "/diff?old=1&new=2") for path in shown),
        "/sign-in",
        "/conversations?q=hello",
        f"{agent}/servers/new",
        "/plans/new",
        "/plans/Starter",
        f"/playground?{chosen}",
        f"/what-if?{chosen}",
    ]


_PARTS = re.compile(
    r"/stream|\.csv|/case|/files/|/events/|/plans/|/what-if/|/user$|/traces/|/conversations/new|/news|^GET /$"
)


def _is_page(route: str) -> bool:
    """Return True for a page as people open it: no part, stream or file, and nothing of a what-if."""
    return route.startswith("GET ") and not _PARTS.search(route)


def list_routes(html: str) -> set[str]:
    """The routes that a page leads to or sends forms to."""
    found = {("POST", path) for path in re.findall(r'hx-post="([^"]+)"', html)}
    found |= {("GET", path) for path in re.findall(r'\s(?:href|hx-get|hx-sse:connect)="(/[^"]*)"', html)}
    found |= {("POST", path) for path in re.findall(r'formaction="([^"]+)"', html)}
    for form in re.findall(r"<form[^>]*>", html):
        action = re.search(r'action="([^"]+)"', form)
        if action is not None:
            found.add(("POST" if 'method="post"' in form else "GET", action[1]))
    return {
        _route(method, unescape(path).partition("?")[0].partition("#")[0])
        for method, path in found
        if not path.startswith("/static/")
    }


def _route(method: str, path: str) -> str:
    """The most particular one."""
    patterns = {route: re.sub(r"{\w+}", "[^/]+", route) for route in ROLES}
    fitting = [route for route, pattern in patterns.items() if re.fullmatch(pattern, f"{method} {path}")]
    assert fitting, f"{method} {path} is no route"
    return min(fitting, key=lambda route: route.count("{"))


@pytest.mark.parametrize("role", Role, ids=lambda role: role.word)
async def test_page_only_shows_allowed_buttons_and_links(
    visitors: dict[Role | None, Visitor], pages: list[str], role: Role
) -> None:
    may, offered = Rights(role, ROLES), set()
    answers = await asyncio.gather(*(visitors[role].http.get(path) for path in pages))
    for path, answer in zip(pages, answers, strict=True):
        assert answer.status_code in (200, 403), path
        if answer.status_code == 200:
            found = list_routes(answer.text)
            assert [route for route in found if not may(route)] == [], path
            offered |= found
    assert set(filter(may, ACTIONS)) - _ELSEWHERE <= offered, "nobody misses a button"
