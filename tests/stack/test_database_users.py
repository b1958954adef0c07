"""What the logins of the embedded Postgres may do, statement by statement."""

import asyncio
from urllib.parse import urlsplit

import psycopg
import pytest

from agentchat.ops import connections, folder_secrets, table_grants
from agentchat.ops.errors import SetupError
from agentchat.ops.servers.postgres_server import LOGINS, OWNER, Cluster
from agentchat.runtime.database_roles import ANALYST, OPERATOR, SERVICES, Service, get_role
from agentchat.runtime.postgres import act_as
from tests.harness import RunningStack

_SERVICE_LOGINS = (OPERATOR, *map(get_role, SERVICES))

_NOBODY_MAY = (
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY conversation_events TO '/tmp/copied'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "ALTER SYSTEM SET log_statement = 'all'",
    "CREATE ROLE another SUPERUSER",
    "ALTER ROLE CURRENT_USER SUPERUSER",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
)
_NO_SERVICE_MAY = (
    "UPDATE conversation_events SET state = ''",
    "DELETE FROM conversation_events",
    "TRUNCATE conversation_events",
    "DROP TABLE conversation_events",
    "ALTER TABLE conversation_events DISABLE TRIGGER ALL",
    "CREATE RULE mine AS ON INSERT TO conversation_events DO INSTEAD NOTHING",
    "CREATE TABLE mine (number integer)",
    "INSERT INTO conversation_events (originator_id, originator_version) VALUES ('mine', 1)",
    "CREATE ROLE another",
    f"SET ROLE {OWNER}",
    f"SET SESSION AUTHORIZATION {OWNER}",
    f"GRANT {OWNER} TO CURRENT_USER",
    "UPDATE audit_log SET actor = 'nobody'",
    "INSERT INTO audit_log (at, actor, action, kind, subject) VALUES ('2020-01-01', 'a', 'a', 'a', 'a')",
    "INSERT INTO audit_log (id, actor, action, kind, subject) OVERRIDING SYSTEM VALUE"
    " VALUES (1, 'a', 'a', 'a', 'a')",
)


@pytest.fixture(scope="module")
def cluster(stack: RunningStack) -> tuple[Cluster, int]:
    """The server of a stack, with every table."""
    key = folder_secrets.load_or_create_secrets(stack.folder.secrets).servers_key
    return Cluster(stack.folder, key), urlsplit(stack.environment.database_url).port or 0


def _refusal(url: str, statement: str) -> str | None:
    with psycopg.connect(url, autocommit=True) as conn:
        try:
            conn.execute(statement.encode())
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.InvalidParameterValue,  # there is no such role
            psycopg.errors.ReadOnlySqlTransaction,  # an analyst's default
        ) as error:
            return error.diag.message_primary
    return None


@pytest.mark.parametrize("login", LOGINS)
def test_logins_cannot_reach_the_machine_or_change_events(cluster: tuple[Cluster, int], login: str) -> None:
    server, port = cluster
    forbidden = (*_NOBODY_MAY, *(_NO_SERVICE_MAY if login in _SERVICE_LOGINS else ()))
    allowed = [each for each in forbidden if _refusal(server.url(port, login), each) is None]
    assert allowed == []


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_may_hide_a_table_behind_a_temporary_one(
    cluster: tuple[Cluster, int], service: Service
) -> None:
    """Operators may make temporary tables: their commands build read models again in them."""
    server, port = cluster
    statement = "CREATE TEMPORARY TABLE conversation_events (originator_id text)"
    assert _refusal(server.url(port, get_role(service)), statement) is not None


def test_each_service_has_its_tables_and_no_others(cluster: tuple[Cluster, int]) -> None:
    server, port = cluster
    with psycopg.connect(server.url(port)) as owner:
        tables_and_views = owner.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        ).fetchall()
        assert {name for (name,) in tables_and_views} == set(table_grants.TABLES)
    for service in SERVICES:
        url = act_as(server.url(port, get_role(service)), service)
        readable = {table for table in table_grants.TABLES if _refusal(url, f"TABLE {table}") is None}
        assert readable == {table for table, rights in table_grants.TABLES.items() if service in rights}


def test_security_definer_functions_belong_to_one_service(cluster: tuple[Cluster, int]) -> None:
    server, port = cluster
    with psycopg.connect(server.url(port)) as owner:
        rows = owner.execute(
            "SELECT proname,"
            "       array_agg(role ORDER BY role) FILTER (WHERE has_function_privilege(role, oid, 'EXECUTE'))"
            "  FROM pg_proc, unnest(%s::text[]) AS role"
            " WHERE pronamespace = 'public'::regnamespace AND prosecdef AND prorettype <> 'trigger'::regtype"
            " GROUP BY proname",
            [list(map(get_role, SERVICES))],
        ).fetchall()
    assert dict(rows) == {
        "append_events": [get_role("orchestrator")],
        "remove_content": [get_role("projector")],
        "settled_position": sorted(map(get_role, table_grants.READERS)),
    }


def test_an_operator_reads_every_table(cluster: tuple[Cluster, int]) -> None:
    server, port = cluster
    refused = [
        table for table in table_grants.TABLES if _refusal(server.url(port, OPERATOR), f"TABLE {table}")
    ]
    assert refused == []


def test_an_analyst_reads_the_views_of_analytics_alone(cluster: tuple[Cluster, int]) -> None:
    server, port = cluster
    url = server.url(port, ANALYST)
    assert [table for table in table_grants.TABLES if _refusal(url, f"TABLE {table}") is None] == []
    with psycopg.connect(url, autocommit=True) as conn:
        assert conn.execute("SELECT count(*) >= 0 FROM analytics.runs").fetchone() == (True,)
        for setting, default in (("default_transaction_read_only", "on"), ("statement_timeout", "5min")):
            assert conn.execute(f"SHOW {setting}").fetchone() == (default,)
        conn.execute("SET default_transaction_read_only = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("DELETE FROM analytics.usage_by_day")
    with pytest.raises(SetupError, match=r"needs an operator's login .*: agentchat_operator"):
        asyncio.run(connections.check_reachable(url))  # as `agentchat export conversations` does


def test_a_service_on_the_owners_address_has_its_own_rights_alone(cluster: tuple[Cluster, int]) -> None:
    server, port = cluster
    with psycopg.connect(act_as(server.url(port), "tool_runner")) as conn:
        assert conn.execute("SELECT current_user").fetchone() == ("agentchat_tool_runner",)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("TABLE conversation_events")
