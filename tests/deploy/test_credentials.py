"""`agentchat credentials all`: what the compose file mounts."""

import ssl
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict

from agentchat.bus import nats_users
from agentchat.ops.credentials import COMPOSE, KUBERNETES, SECRETS, write_all
from agentchat.ops.errors import SetupError
from agentchat.runtime.database_roles import SERVICES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("credentials") / "secrets"
    write_all(made, COMPOSE, datetime.now(UTC))
    return made


def test_nobody_else_may_enter_the_folder(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "ca.key").stat().st_mode & 0o777 == 0o600


def test_each_service_has_its_own_login_at_each_server_that_it_needs(folder: Path) -> None:
    logins = (folder / "postgres-logins.sql").read_text()
    for service in SERVICES:
        found = conninfo_to_dict((folder / f"{service.replace('_', '-')}-database-url").read_text())
        assert found["user"] == f"agentchat_{service}"
        assert f"ALTER ROLE agentchat_{service} LOGIN PASSWORD '{found['password']}'" in logins
    nats = (folder / "nats-users.conf").read_text()
    for user in ("gateway", "orchestrator", "tool-runner", "projector"):
        address = (folder / f"{user}-nats-url").read_text()
        assert nats_users.parse_user(address) == user
        password = address.split("@")[0].rpartition(":")[2]
        assert f'user: "{user}", password: "{password}"' in nats


def test_certificates_match_server_names_and_keys(folder: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    assert trusting.cert_store_stats()["x509_ca"] == 1
    for server in ("nats", "postgres", "valkey"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / f"{server}.crt", folder / f"{server}.key")


def test_every_secret_of_kubernetes_is_made_of_a_file_in_the_folder(tmp_path: Path) -> None:
    write_all(tmp_path / "secrets", KUBERNETES, datetime.now(UTC))
    made = yaml.safe_load((tmp_path / "secrets/kustomization.yaml").read_text())["secretGenerator"]
    assert [each["name"] for each in made] == list(SECRETS)
    for each in made:
        files = dict(file.split("=") for file in each["files"])
        assert files == SECRETS[each["name"]]
        assert all((tmp_path / "secrets" / file).is_file() for file in files.values())
    owner = conninfo_to_dict((tmp_path / "secrets/owner-database-url").read_text())
    assert owner["host"] == "agentchat-postgres-rw"
    # Kubernetes hands it on as it is, to who would take a line break for a part of it.
    assert owner["password"] == (tmp_path / "secrets/owner-password").read_text()


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (("all",), 2, "agentchat: `credentials all` needs --to, a new folder\n"),
        (
            ("all", "--to", "/dev/null/secrets"),
            2,
            "agentchat: /dev/null/secrets cannot be written: Not a directory\n",
        ),
        (("all", "--kubernetes", "--to", "{0}/secrets"), 0, ""),
    ],
)
def test_the_command_fills_a_folder_or_says_why_not(
    tmp_path: Path, options: tuple[str, ...], code: int, reason: str
) -> None:
    words = [each.format(tmp_path) for each in options]
    command = [sys.executable, "-m", "agentchat.ops.main", "credentials", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (code, reason, "")
    assert code or (tmp_path / "secrets/kustomization.yaml").is_file()


def test_what_is_in_use_is_not_replaced(folder: Path) -> None:
    before = (folder / "secret-key").read_text()
    with pytest.raises(SetupError, match="is not empty; choose a new folder"):
        write_all(folder, COMPOSE, datetime.now(UTC))
    assert (folder / "secret-key").read_text() == before
