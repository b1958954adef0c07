"""Servers with the settings of the Compose file, in containers: a part of `make image TESTS=…`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentchat.ops.servers.server_files import find_nats_server, find_postgres_install, find_valkey_server
from tests.deploy.compose_run import FILE, ComposeRun
from tests.harness import temporary_folder
from tests.support.contained import IMAGE

pytestmark = [
    pytest.mark.skipif(not os.environ.get(IMAGE), reason=f"{IMAGE} is not set: see make image"),
    pytest.mark.timeout(900),
]

_NATS = ("nats-1", "nats-2", "nats-3")
_SERVICES = ("projector", "tool-runner", "orchestrator", "gateway")
_DATA = "/var/lib/postgresql/18/docker"
_PROVISION = """
import asyncio, pathlib
from agentchat.bus.bus import Bus
async def provision():
    url = pathlib.Path("/run/secrets/projector-nats-provisioner-url").read_text().strip()
    async with Bus.connect(url, name="rehearsal", replicas=3) as bus:
        await bus.ping()
asyncio.run(provision())
print("provisioned")
"""
_PLANS = """
import urllib.request
token = open("/run/secrets/admin-token").read()
headers = {"Authorization": f"Bearer {token}"}
asked = urllib.request.Request("http://127.0.0.1:8080/admin/v1/plans", headers=headers)
print(urllib.request.urlopen(asked, timeout=10).read().decode())
"""
_HEALTHY = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8222/healthz', timeout=3).status)"
_ENTRYPOINT = """#!/bin/sh
# What the official image does at the first start, in short.
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # shellcheck disable=SC2086
    initdb -D "$PGDATA" -U postgres --auth=reject $POSTGRES_INITDB_ARGS
    echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" postgres
    postgres --single -D "$PGDATA" "$POSTGRES_DB" </docker-entrypoint-initdb.d/logins.sql
fi
exec "$@"
"""


@pytest.fixture
def run() -> Iterator[ComposeRun]:
    with temporary_folder() as folder:
        made = ComposeRun(folder)
        with made.network():
            yield made


def _start_nats(run: ComposeRun) -> None:
    for name in _NATS:
        run.start(name, {find_nats_server(): "/usr/local/bin/nats-server"})
    for name in _NATS:
        run.wait(name, "python", "-c", _HEALTHY, until="200")


def test_three_nats_nodes_survive_the_loss_of_one(run: ComposeRun) -> None:
    _start_nats(run)
    run.start("projector", {}, command=("http.server", "8081"))
    run.wait("projector", "python", "-c", _PROVISION, until="provisioned", seconds=240)

    run.kill("nats-2")

    # Each stream and consumer is looked at, and has a leader again.
    run.wait("projector", "python", "-c", _PROVISION, until="provisioned", seconds=240)
    run.start("nats-2", {find_nats_server(): "/usr/local/bin/nats-server"})
    run.wait("nats-2", "python", "-c", _HEALTHY, until="200", seconds=240)


class _Postgres:
    """The two nodes of the file, without TLS, which the Postgres of the wheels does not have."""

    def __init__(self, run: ComposeRun, folder: Path) -> None:
        self._run = run
        run.change("compose/postgres.sh", " sslmode=verify-full sslrootcert=/run/secrets/ca.crt", "")
        run.change("compose/pg_hba.tls.conf", "hostssl", "host")
        run.change("compose/pg_hba.tls.conf", "peer", "trust")  # our image has no user called postgres
        entrypoint = folder / "docker-entrypoint.sh"
        entrypoint.write_text(_ENTRYPOINT)
        entrypoint.chmod(0o755)
        folder.chmod(0o711)
        package = find_postgres_install().parent
        programs = f"/opt/{package.name}/{find_postgres_install().name}/bin"
        self._programs = {
            package: f"/opt/{package.name}",
            package.with_suffix(".libs"): f"/opt/{package.name}.libs",
            entrypoint: "/usr/local/bin/docker-entrypoint.sh",
        }
        self._environ = {"PGDATA": _DATA, "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}
        settings = FILE["services"]["postgres"]["command"]
        pairs = zip(settings[::2], settings[1::2], strict=True)
        self._command = tuple(word for pair in pairs if not pair[1].startswith("ssl") for word in pair)

    def start(self, name: str) -> None:
        self._run.start(name, self._programs, self._environ, command=self._command)
        self._run.wait(name, *FILE["services"][name]["healthcheck"]["test"][1:])

    def sql(self, name: str, statement: str, until: str = "") -> None:
        command = (
            "psql",
            "-h",
            "/var/run/postgresql",
            "-U",
            "postgres",
            "-d",
            "agentchat",
            "-Atc",
            statement,
        )
        self._run.wait(name, *command, until=until)


def test_a_standby_copies_the_primary_follows_it_and_is_promoted(run: ComposeRun, tmp_path: Path) -> None:
    postgres = _Postgres(run, tmp_path)
    postgres.start("postgres")
    postgres.sql("postgres", "CREATE TABLE written (at int); INSERT INTO written VALUES (1)")
    postgres.start("postgres-standby")
    postgres.sql("postgres", "INSERT INTO written VALUES (2)")

    postgres.sql("postgres-standby", "SELECT count(*) FROM written", until="2")
    run.kill("postgres")
    run.execute("postgres-standby", "pg_ctl", "promote", "-D", _DATA)
    postgres.sql("postgres-standby", "INSERT INTO written VALUES (3) RETURNING at", until="3")


def test_every_service_of_ours_is_healthy_with_what_the_file_gives_it(
    run: ComposeRun, tmp_path: Path
) -> None:
    """Postgres and Valkey without TLS, as the wheels have them; the collector is away."""
    for service in ("owner", *_SERVICES):
        run.change(
            f"secrets/{service}-database-url", "?sslmode=verify-full&sslrootcert=/run/secrets/ca.crt", ""
        )
    for service in ("gateway", "orchestrator"):
        run.change(f"secrets/{service}-redis-url", "rediss://", "redis://")
        run.change(f"secrets/{service}-redis-url", "?ssl_ca_certs=/run/secrets/ca.crt", "")
    command = FILE["services"]["valkey"]["command"]
    plain = (*command[: command.index("--port")], "--port", "6379")
    _start_nats(run)
    _Postgres(run, tmp_path).start("postgres")
    run.start("valkey", {find_valkey_server(): "/usr/local/bin/valkey-server"}, command=plain)

    run.start("migrate", {})
    assert run.end_of("migrate") == 0, run.logs("migrate")
    for service in _SERVICES:
        run.start(service, {})
    for service in _SERVICES:
        run.wait(service, *FILE["services"][service]["healthcheck"]["test"][1:], seconds=300)
    assert '"name":"Enterprise"' in run.execute("gateway", "python", "-c", _PLANS)
