"""The users of Redis have their own commands and no others; production has the same users."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError

from agentchat.limits import decide_in_redis
from agentchat.ops.free_ports import find_free_port
from agentchat.ops.run_folder import RunFolder
from agentchat.ops.servers import valkey
from agentchat.ops.stack_report import QuietReport
from agentchat.ops.supervisor import Supervisor
from tests.chaos.faults import empty_counters

KEY = "a-key"
COUNTER, OTHER = "limits:{account}:rate", "somebody:else"
NOBODY_MAY = (
    ("FLUSHALL",),
    ("SCRIPT", "FLUSH"),
    ("SCRIPT", "KILL"),
    ("FUNCTION", "FLUSH"),
    ("FUNCTION", "LOAD", "code"),
    ("FLUSHDB",),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("KEYS", "*"),
    ("SHUTDOWN",),
    ("PUBLISH", "channel", "word"),
    ("SET", OTHER, "word"),
    ("EVAL", "return redis.call('SET', KEYS[1], 'word')", "1", OTHER),
    ("MIGRATE", "host", "1", COUNTER, "0", "1"),
)


NO_SERVICE_MAY = (
    ("SCAN", "0"),  # which names the keys of others
    ("RANDOMKEY",),
    ("DBSIZE",),
    ("COPY", COUNTER, OTHER),
    ("SCRIPT", "LOAD", "return 1"),
    ("SORT", COUNTER),
    ("APPEND", COUNTER, "word"),
)


@pytest.fixture(scope="module")
async def port(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    folder = RunFolder(tmp_path_factory.mktemp("run"))
    folder.create()
    port = find_free_port()
    async with Supervisor(
        folder, [valkey.describe_process(folder, port, key=KEY)], QuietReport()
    ) as supervisor:
        await supervisor.wait_up(20)
        yield port


async def is_refused(redis: Redis, command: tuple[str, ...]) -> bool:
    execute: Callable[..., Awaitable[Any]] = redis.execute_command
    try:
        await execute(*command)
    except NoPermissionError:
        return True
    return False


@pytest.mark.parametrize("user", valkey.USERS)
async def test_each_user_has_the_counters_and_no_power_over_the_server(port: int, user: str) -> None:
    async with Redis.from_url(valkey.build_url(port, KEY, user)) as redis:
        assert await redis.ping()
        await redis.set(COUNTER, "5")
        assert await redis.eval("return redis.call('GET', KEYS[1])", 1, COUNTER) == b"5"
        assert [command for command in NOBODY_MAY if not await is_refused(redis, command)] == []
        assert await is_refused(redis, ("GET", OTHER)) is (user != "operator")


@pytest.mark.parametrize("user", [user for user in valkey.USERS if user != "operator"])
async def test_a_service_may_do_what_the_limiters_scripts_do_and_no_more(port: int, user: str) -> None:
    scripts = " ".join(value for value in vars(decide_in_redis).values() if isinstance(value, str))
    called = set(re.findall(r"redis\.p?call\('([A-Z]+)'", scripts))
    assert {"TIME", "GET", "ZADD"} <= called
    async with Redis.from_url(valkey.build_url(port, KEY, user)) as redis:
        for command in called:  # with no operands: what it says is not that it is refused
            outcome = await redis.eval(f"return redis.pcall('{command}')['err'] or ''", 0)
            assert b"ACL" not in outcome, command
        assert [command for command in NO_SERVICE_MAY if not await is_refused(redis, command)] == []


async def test_an_operator_can_empty_the_counters(port: int) -> None:
    async with Redis.from_url(valkey.build_url(port, KEY, "operator")) as redis:
        await redis.set(COUNTER, "5")
        await empty_counters(redis)
        assert await redis.get(COUNTER) is None


async def test_nobody_gets_in_without_a_password(port: int) -> None:
    for url in (valkey.build_url(port), valkey.build_url(port, "another key", "gateway")):
        async with Redis.from_url(url) as redis:
            with pytest.raises(AuthenticationError):
                await redis.ping()
