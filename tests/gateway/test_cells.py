"""The router in front of two cells: each gateway has a database of its own, and the test plays the worker."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import msgspec
import pytest

from directory import account_cells
from gateway.cells.__main__ import serve
from gateway.cells.cell_settings import CellSettings
from ops.ports import Ports
from runtime.postgres import connection, open_pool
from runtime.settings import SettingsError
from tests.gateway.client import Client, accepted, check_problem
from tests.gateway.conftest import Account, make_account
from tests.gateway.process import GatewayProcess, gateway_process
from tests.gateway.worker import Worker


class Cells(msgspec.Struct):
    """The router's address, and of each cell its gateway, its database, and an account that lives there."""

    url: str
    gateways: dict[str, GatewayProcess]
    databases: dict[str, str]
    accounts: dict[str, Account]

    def client(self, http: httpx.AsyncClient, cell: str) -> Client:
        account = self.accounts[cell]
        return Client(http, self.url, account.key, account.agent)


@pytest.fixture
async def cells(
    migrated_database_url: str, other_database_url: str, environ: dict[str, str], tmp_path: Path
) -> AsyncIterator[Cells]:
    databases = {"a": migrated_database_url, "b": other_database_url}
    async with contextlib.AsyncExitStack() as stack:
        found = Cells("", {}, databases, {})
        for name, url in databases.items():
            folder = tmp_path / name
            folder.mkdir()
            own = environ | {"AGENTCHAT_DATABASE_URL": url, "AGENTCHAT_TRUSTED_PROXIES": "127.0.0.1"}
            found.gateways[name] = await stack.enter_async_context(gateway_process(folder, own))
            async with open_pool(url) as pool:
                found.accounts[name] = await make_account(pool, "Unlimited")
        port, stop = stack.enter_context(contextlib.closing(Ports())).free(), asyncio.Event()
        addresses = tuple(f"{name}={each.url}" for name, each in found.gateways.items())
        settings = CellSettings(cells=addresses, port=port)
        serving = asyncio.create_task(serve(settings, settings.addresses(), stop))
        found.url = f"http://127.0.0.1:{port}"
        await _listens(port)
        yield found
        stop.set()
        await serving


async def _listens(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.01)


async def test_each_key_is_answered_by_its_cell_and_streams_come_as_they_are_written(
    cells: Cells, http: httpx.AsyncClient, worker: Worker
) -> None:
    for name, account in cells.accounts.items():
        client = cells.client(http, name)
        async with accepted(client, worker, message=f"to {name}") as (turn, events):
            assert turn.request.account_id == account.account_id
            assert (await events.next())["type"] == "meta"
            await turn.delta("Hel")
            assert await events.next() == {"type": "delta", "content": "Hel"}
            await turn.delta("lo.")
            await turn.complete()
            assert [each["type"] for each in await events.rest()] == ["delta", "done"]
            assert events.response.headers["x-trace-id"] == turn.request.trace_id
        models = await http.get(
            f"{cells.url}/openai/v1/models", headers={"Authorization": f"Bearer {account.key}"}
        )
        assert account.agent in models.text


async def test_a_wrong_key_and_none_are_refused_as_by_a_gateway(
    cells: Cells, http: httpx.AsyncClient
) -> None:
    for headers, code in (({"X-Api-Key": "sk-ac-wrong"}, "invalid_api_key"), ({}, "missing_api_key")):
        check_problem(await http.get(f"{cells.url}/v1/conversations", headers=headers), 401, code)
    assert (await http.get(f"{cells.url}/openapi.json")).status_code == 200
    check_problem(await http.get(f"{cells.url}/admin/v1/accounts"), 404, "not_found")


async def test_an_account_that_is_moved_waits_and_is_then_served_by_its_new_cell(
    cells: Cells, http: httpx.AsyncClient
) -> None:
    """The account of `a` closes there; then another cell has its key."""
    client, account = cells.client(http, "a"), cells.accounts["a"]
    listed = f"{cells.url}/v1/conversations"
    assert (await http.get(listed, headers=client.headers)).status_code == 200
    async with open_pool(cells.databases["a"], role=None) as source, connection(source) as conn:
        await account_cells.close(conn, account.account_id)
        refused = await http.get(listed, headers=client.headers)
        check_problem(refused, 503, "account_moving")
        assert refused.headers["retry-after"] == "2"
        openai = await http.get(
            f"{cells.url}/openai/v1/models", headers={"Authorization": f"Bearer {account.key}"}
        )
        assert (openai.status_code, openai.json()["error"]["code"]) == (503, "account_moving")
        async with open_pool(cells.databases["b"], role=None) as target, connection(target) as there:
            await there.execute(
                "INSERT INTO accounts (account_id, name, plan) VALUES (%s, 'moved', 'Unlimited')",
                [account.account_id],
            )
            await there.execute(
                "INSERT INTO api_keys (key_id, account_id, name, key_hash, last4)"
                " VALUES (%s, %s, '', sha256(%s::bytea), '')",
                [account.key_id, account.account_id, account.key.encode()],
            )
        await account_cells.point_to(conn, account.account_id, "b")
    direct = await http.get(f"{cells.gateways['a'].url}/v1/conversations", headers=client.headers)
    check_problem(direct, 421, "account_moved")
    async with asyncio.timeout(5):  # `b` may have refused the key within the last second
        while (answer := await http.get(listed, headers=client.headers)).status_code != 200:
            check_problem(answer, 503, "account_moving")
            await asyncio.sleep(0.1)


async def test_a_cell_that_is_away_answers_503_to_its_accounts_alone(
    cells: Cells, http: httpx.AsyncClient
) -> None:
    clients = {name: cells.client(http, name) for name in cells.accounts}
    listed = f"{cells.url}/v1/conversations"
    for client in clients.values():
        assert (await http.get(listed, headers=client.headers)).status_code == 200
    await cells.gateways["a"].stop()
    for headers in (clients["a"].headers, {"X-Api-Key": "sk-ac-of-any"}):
        refused = await http.get(listed, headers=headers)
        check_problem(refused, 503, "overloaded")
        assert refused.headers["retry-after"] == "2"
    assert (await http.get(listed, headers=clients["b"].headers)).status_code == 200


async def test_a_client_that_goes_is_gone_for_its_cell_too(
    cells: Cells, http: httpx.AsyncClient, worker: Worker
) -> None:
    client, gateway = cells.client(http, "a"), cells.gateways["a"]
    async with accepted(client, worker, message="leaves") as (turn, events):
        await events.next()
        await events.response.aclose()
        async with asyncio.timeout(10):
            await gateway.line("request", path="/v1/chat/stream", status=200)
        await turn.complete()


@pytest.mark.parametrize("given", ["", "a", "a=b", "a=http://h/x", "a=http://h,a=http://i", "=http://h"])
def test_addresses_that_cannot_be_are_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_CELLS"):
        CellSettings(cells=tuple(filter(None, given.split(",")))).addresses()
