"""Servers with the settings of the Compose file, in containers: a part of `make rehearse`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.servers.server_files import nats_server, postgres_install
from tests.deploy.compose_run import FILE, ComposeRun
from tests.harness import temporary_folder
from tests.support.contained import IMAGE

pytestmark = [
    pytest.mark.requirement("DEPLOYMENT"),
    pytest.mark.skipif(not os.environ.get(IMAGE), reason=f"{IMAGE} is not set: see make rehearse"),
    pytest.mark.timeout(900),
]

_PROVISION = """
import asyncio, pathlib
from bus import Bus
async def provision():
    url = pathlib.Path("/run/secrets/projector-nats-provisioner-url").read_text().strip()
    async with Bus.connect(url, name="rehearsal", replicas=3) as bus:
        await bus.ping()
asyncio.run(provision())
print("provisioned")
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


def test_three_nodes_of_nats_with_tls_and_users_survive_the_loss_of_one(run: ComposeRun) -> None:
    nodes = ("nats-1", "nats-2", "nats-3")
    programs = {nats_server(): "/usr/local/bin/nats-server"}
    for name in nodes:
        run.start(name, programs)
    for name in nodes:
        run.wait(name, "python", "-c", _HEALTHY, until="200")
    run.start("projector", {}, command=("http.server", "8081"))
    assert "provisioned" in run.wait(
        "projector", "python", "-c", _PROVISION, until="provisioned", seconds=240
    )

    run.kill("nats-2")

    # Each stream and consumer is looked at, and has a leader again.
    run.wait("projector", "python", "-c", _PROVISION, until="provisioned", seconds=240)
    run.start("nats-2", programs)
    run.wait("nats-2", "python", "-c", _HEALTHY, until="200", seconds=240)


def test_a_standby_copies_the_primary_follows_it_and_is_promoted(run: ComposeRun, tmp_path: Path) -> None:
    """Without TLS, which the Postgres of the wheels does not have."""
    run.change("compose/postgres.sh", " sslmode=verify-full sslrootcert=/run/secrets/ca.crt", "")
    run.change("compose/pg_hba.tls.conf", "hostssl", "host")
    run.change("compose/pg_hba.tls.conf", "peer", "trust")  # our image has no user called postgres
    entrypoint = tmp_path / "docker-entrypoint.sh"
    entrypoint.write_text(_ENTRYPOINT)
    entrypoint.chmod(0o755)
    tmp_path.chmod(0o711)
    package = postgres_install().parent
    bin_folder = f"/opt/{package.name}/{postgres_install().name}/bin"
    programs = {
        package: f"/opt/{package.name}",
        package.with_suffix(".libs"): f"/opt/{package.name}.libs",
        entrypoint: "/usr/local/bin/docker-entrypoint.sh",
    }
    environ = {
        "PGDATA": "/var/lib/postgresql/18/docker",
        "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin",
    }
    settings = [each for each in FILE["services"]["postgres"]["command"] if not each.startswith("ssl")]
    without_tls = tuple(_without_empty_options(settings))

    run.start("postgres", programs, environ, command=without_tls)
    run.wait("postgres", "pg_isready", "-q", "-h", "127.0.0.1", "-d", "agentchat")
    _sql(run, "postgres", "CREATE TABLE written (at int); INSERT INTO written VALUES (1)")
    run.start("postgres-standby", programs, environ, command=without_tls)
    run.wait("postgres-standby", "pg_isready", "-q", "-h", "127.0.0.1", "-d", "agentchat")
    _sql(run, "postgres", "INSERT INTO written VALUES (2)")

    run.wait("postgres-standby", *_psql("SELECT count(*) FROM written"), until="2")
    run.kill("postgres")
    run.execute("postgres-standby", "pg_ctl", "promote", "-D", "/var/lib/postgresql/18/docker")
    run.wait("postgres-standby", *_psql("INSERT INTO written VALUES (3) RETURNING at"), until="3")


def _without_empty_options(settings: list[str]) -> Iterator[str]:
    """Each `-c` that still has a value after it."""
    for name, value in zip(settings, [*settings[1:], ""], strict=True):
        if name != "-c" or (value and value != "-c"):
            yield name


def _psql(statement: str) -> tuple[str, ...]:
    return ("psql", "-h", "/var/run/postgresql", "-U", "postgres", "-d", "agentchat", "-Atc", statement)


def _sql(run: ComposeRun, name: str, statement: str) -> None:
    run.wait(name, *_psql(statement))
