"""The manifests of Kubernetes: schemas, settings of our containers, Secrets that exist."""

import functools
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import kubernetes_validate
import pytest
import yaml
from litestar import Litestar

from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.openapi import build_openapi_config
from agentchat.gateway.routes import ROUTES
from agentchat.ops.credentials import SECRETS
from tests.deploy.container_settings import ROOT, settings_faults

Manifest = dict[str, Any]
KUBERNETES = ROOT / "deploy/kubernetes"
_ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
_RULE = KUBERNETES / "monitoring/prometheus-rule.yaml"
_SCHEMAS = "1.32"
"""The oldest version of Kubernetes that the manifests are for."""
_OPERATORS = {"postgresql.cnpg.io/v1", "keda.sh/v1alpha1", "monitoring.coreos.com/v1"}
"""Kinds whose schemas are not in kubernetes-validate."""


def _read(text: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(text) if each]


@functools.cache
def _source_manifests() -> list[Manifest]:
    """Return all files without rendering, but not the patches and listings of Kustomize."""
    found: list[Manifest] = []
    for listing in sorted(KUBERNETES.glob("**/kustomization.yaml")):
        for name in yaml.safe_load(listing.read_text()).get("resources", []):
            path = listing.parent / name
            found += _read(path.read_text()) if path.is_file() else []
    return found


@functools.cache
def _manifests() -> list[Manifest]:
    """Return the manifests as `kubectl` renders them where it is installed."""
    if shutil.which("kubectl") is None:
        return _source_manifests()
    overlay = KUBERNETES / "overlays/small"
    command = ["kubectl", "kustomize", str(overlay)]
    return _read(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for each in manifests:
        if each["kind"] in ("Deployment", "StatefulSet", "Job", "CronJob"):
            job = each["spec"].get("jobTemplate", each)
            yield each["metadata"]["name"], job["spec"]["template"]["spec"]


def _containers(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest, Manifest]]:
    for name, pod in _pods(manifests):
        for container in pod["containers"]:
            yield name, pod, container


@pytest.mark.parametrize("list_manifests", [_manifests, _source_manifests], ids=["rendered", "sources"])
def test_manifests_are_valid(list_manifests: Callable[[], list[Manifest]]) -> None:
    for each in list_manifests():
        if each["apiVersion"] not in _OPERATORS:
            kubernetes_validate.validate(each, _SCHEMAS, strict=True)


def test_containers_are_confined_and_bounded() -> None:
    for name, pod, container in _containers([*_manifests(), *_source_manifests()]):
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True, name
        assert security["allowPrivilegeEscalation"] is False, name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert container["resources"]["limits"]["memory"], name


def test_services_start_with_their_settings() -> None:
    started = set()
    for name, _, container in _containers(_manifests()):
        if container["image"].startswith("agentchat:"):
            environ = {each["name"]: str(each["value"]) for each in container.get("env", [])}
            files = {environ[each] for each in environ if each.endswith("_FILE")}
            assert settings_faults(container["args"], environ, files) == [], name
            started.add(name)
    assert started >= {"gateway", "orchestrator", "tool-runner", "projector", "console", "migrate"}


def test_named_secrets_are_made_by_the_credentials_command() -> None:
    named = set()
    for _, pod in _pods([*_manifests(), *_source_manifests()]):
        for volume in pod.get("volumes", []):
            sources = volume.get("projected", {}).get("sources", [volume])
            named |= {
                each["secret"].get("name") or each["secret"]["secretName"]
                for each in sources
                if "secret" in each
            }
    assert named <= set(SECRETS)


def test_pod_monitor_gives_the_job_names_of_the_alerts() -> None:
    [monitor] = [each for each in _source_manifests() if each["kind"] == "PodMonitor"]
    [selected] = monitor["spec"]["selector"]["matchExpressions"]
    example = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())
    assert sorted(selected["values"]) == sorted(each["job_name"] for each in example["scrape_configs"])
    label, [endpoint] = monitor["spec"]["jobLabel"], monitor["spec"]["podMetricsEndpoints"]
    for each in _source_manifests():
        if each["kind"] == "Deployment" and each["metadata"]["name"] in selected["values"]:
            template = each["spec"]["template"]
            assert template["metadata"]["labels"][label] == each["metadata"]["name"]
            ports = [port["name"] for port in template["spec"]["containers"][0]["ports"]]
            assert endpoint["port"] in ports, each["metadata"]["name"]


def test_prometheus_rule_has_the_alerts() -> None:
    rule = yaml.safe_load(_RULE.read_text())
    assert (rule["kind"], rule["spec"]) == ("PrometheusRule", yaml.safe_load(_ALERTS.read_text()))


def test_ingress_has_all_public_addresses() -> None:
    [ingress] = [each for each in _source_manifests() if each["kind"] == "Ingress"]
    prefixes = tuple(each["path"] for each in ingress["spec"]["rules"][0]["http"]["paths"])
    app = Litestar(ROUTES, openapi_config=build_openapi_config(), request_class=JsonRequest)
    addresses = {route.path for route in app.routes}
    inside = {each for each in addresses if not each.startswith(prefixes)}
    assert inside == {"/", "/healthz", "/readyz"}


def test_images_have_the_version_of_the_tree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    images = {each["image"] for _, _, each in _containers([*_manifests(), *_source_manifests()])}
    assert {each for each in images if each.startswith("agentchat")} == {f"agentchat:{version}"}


def write_rule() -> None:
    """Write the PrometheusRule again, with the alerts as they are now."""
    head, _, _ = _RULE.read_text().partition("spec:\n")
    lines = (f"  {line}".rstrip() for line in _ALERTS.read_text().splitlines())
    _RULE.write_text("\n".join([f"{head}spec:", *lines, ""]))


if __name__ == "__main__":
    write_rule()
