"""People who are limited to some accounts, on every page; and roles, the same in console and admin API."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from litestar import Litestar

from agentchat.administration.account_scope import has_account
from agentchat.administration.admin import Admin
from agentchat.administration.admin_tokens import NewToken, create
from agentchat.administration.routes import ROUTES
from agentchat.console import app
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.directory_lists import list_changes
from agentchat.conversations.event_store.conversation_store import open_store
from agentchat.conversations.event_store.event_log import open_log
from agentchat.directory.secret_encryption import build_sealer
from agentchat.runtime.postgres import Pool
from tests.console.test_roles import GUARDED, Visitor, list_handlers
from tests.conversations.read_models import Storage
from tests.support.embedded_service import EmbeddedService
from tests.tenants import Tenant, fill_unknown, make_tenant

pytestmark = pytest.mark.filterwarnings("ignore::litestar.exceptions.LitestarDeprecationWarning")


@pytest.fixture(scope="module")
async def tenants(environ: dict[str, str], pool: Pool) -> list[Tenant]:
    admin = Admin(pool=pool, sealer=build_sealer(environ["AGENTCHAT_SECRET_KEY"]), actor="test")
    url = environ["AGENTCHAT_DATABASE_URL"]
    async with open_store(url) as store, open_log(url) as log:
        storage = Storage(store, log, pool, url)
        found = [await make_tenant(admin, storage, name) for name in ("walrus", "zebra")]
    await create(admin, NewToken(name="limited", role="owner", account_ids=[found[0].ids["account_id"]]))
    return found


@pytest.fixture
async def visitor(
    guarded_console: EmbeddedService, environ: dict[str, str], pool: Pool, tenants: list[Tenant]
) -> AsyncIterator[Visitor]:
    """An owner who is limited to the first account."""
    key = environ["AGENTCHAT_SECRET_KEY"]
    visitor = await Visitor.open_session(guarded_console, pool, key, Role.OWNER, token_name="limited")
    yield visitor
    await visitor.http.aclose()


async def test_limited_person_on_each_page(visitor: Visitor, tenants: list[Tenant]) -> None:
    own, other = tenants
    closed = app.list_closed_routes(Litestar(list_handlers(), openapi_config=None).routes)
    for route in GUARDED:
        foreign, unknown, owned = [
            await visitor.answer(fill(route)) for fill in (other.fill, fill_unknown, own.fill)
        ]
        if has_account(re.findall(r"{(\w+)}", route)):
            assert (foreign.status_code, hide_ids(foreign)) == (404, hide_ids(unknown)), route
            assert owned.status_code not in (403, 500), route
        else:
            assert (foreign.status_code == 403) == (route in closed), route
        given = set(re.findall(r"[0-9a-f-]{32,}", str(foreign.url)))
        for answer in filter(lambda answer: answer.is_stream_consumed, (foreign, owned)):
            assert not [each for each in other.marks - given if each in answer.text], route


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/now", {"agent": "agent_id"}),
        ("/now", {"account": "account_id"}),
        ("/runs", {"agent": "agent_id"}),
        ("/conversations", {"account": "account_id"}),
        ("/approvals", {"account_id": "account_id"}),
        ("/playground", {"agent": "agent_id"}),
        ("/playground", {"conversation": "conversation_id"}),
        ("/playground/stream", {"trace": "trace_id"}),
    ],
)
async def test_query_cannot_name_another_account(
    visitor: Visitor, tenants: list[Tenant], path: str, parameters: dict[str, str]
) -> None:
    for tenant, status in zip(tenants, (200, 404), strict=True):
        query = {name: tenant.ids[key] for name, key in parameters.items()}
        async with visitor.http.stream("GET", path, params=query) as answer:
            assert answer.status_code == status
    form = {"agent": tenants[1].ids["agent_id"], "message": "Hello", "_csrf_token": visitor.form_token}
    assert (await visitor.http.post("/playground", data=form)).status_code == 404


async def test_lists_have_the_own_account_alone(visitor: Visitor, tenants: list[Tenant]) -> None:
    own, other = tenants
    lists = (
        "/accounts",
        "/accounts.csv",
        "/agents",
        "/knowledge",
        "/conversations",
        "/runs",
        "/runs.csv",
        "/now/stream",
    )
    for path in (*lists, "/approvals?status=all", "/now", "/playground"):
        async with visitor.http.stream("GET", path) as answer:
            is_live = path == "/now/stream"
            texts = (text async for text in answer.aiter_text() if "id=" in text)
            text = await anext(texts) if is_live else (await answer.aread()).decode()
        # The CSV has ids alone.
        assert own.name in text or own.ids["account_id"] in text, path
        assert not [each for each in other.marks if each in text], path


def hide_ids(answer: httpx.Response) -> str:
    return re.sub(r"[0-9a-f-]{8,}", "ID", answer.text)


def test_roles_are_those_of_the_admin_api() -> None:
    """A page that changes something needs the role of the operation that it calls, another at least it."""
    operations = {route.call: route for route in ROUTES}
    for handler in list_handlers():
        called = [operations[call] for call in find_calls(handler.fn, set()) if call in operations]
        writes = [route.role for route in called if route.method != "GET"]
        reads = [route.role for route in called if route.method == "GET"]
        named = f"{handler.http_methods} {handler.paths}"
        if "POST" in handler.http_methods and writes:
            assert handler.opt["role"] == max(writes), named
        elif reads:
            assert handler.opt["role"] >= max(reads), named


def find_calls(function: Callable[..., Any], seen: set[Any]) -> Iterator[Any]:
    """The functions of other packages that a function of the console names, itself or in what it calls."""
    if function in seen or function is list_changes:  # which looks at the role itself
        return
    seen.add(function)
    names = vars(sys.modules[function.__module__])
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = getattr(names.get(node.value.id), node.attr, None)
        elif isinstance(node, ast.Name):
            found = names.get(node.id)
        else:
            continue
        if inspect.isfunction(found) and found.__module__.startswith("agentchat.console"):
            yield from find_calls(found, seen)
        elif inspect.isfunction(found):
            yield found
