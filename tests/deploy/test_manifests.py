"""The manifests of Kubernetes, and what is refused in them by name."""

import copy
import functools
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from deploy import check_manifests
from deploy.check_manifests import KUBERNETES, OVERLAYS
from deploy.manifest_policy import Manifest, kubernetes_findings

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
SERVICES = ("gateway", "orchestrator", "tool-runner", "projector", "notifier", "console")


_rendered = functools.cache(check_manifests.rendered)
_base_manifests = functools.cache(check_manifests.base_manifests)


def rendered(overlay: str) -> list[Manifest]:
    """A copy, to be changed: kubectl takes seconds."""
    return copy.deepcopy(_rendered(overlay))


def base_manifests() -> list[Manifest]:
    """The same of the base."""
    return copy.deepcopy(_base_manifests())


def _one(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    (found,) = [each for each in manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def _pod(manifests: list[Manifest], name: str) -> Manifest:
    pod: Manifest = _one(manifests, "Deployment", name)["spec"]["template"]["spec"]
    return pod


def _container(manifests: list[Manifest], name: str) -> Manifest:
    container: Manifest = _pod(manifests, name)["containers"][0]
    return container


def _set(manifests: list[Manifest], service: str, name: str, value: str) -> None:
    environ = _container(manifests, service)["env"]
    environ[:] = [each for each in environ if each["name"] != name] + [{"name": name, "value": value}]


def _unset(manifests: list[Manifest], service: str, name: str) -> None:
    environ = _container(manifests, service)["env"]
    environ[:] = [each for each in environ if each["name"] != name]


def _drop(manifests: list[Manifest], *named: tuple[str, str]) -> None:
    for kind, name in named:
        manifests.remove(_one(manifests, kind, name))


def test_the_base_and_the_servers_are_refused_nowhere() -> None:
    manifests = base_manifests()
    assert kubernetes_findings(manifests, complete=False) == []
    assert {each["metadata"]["name"] for each in manifests if each["kind"] == "Deployment"} == {
        *SERVICES,
        "valkey",
    }


Change = Callable[[list[Manifest]], object]
_WRONG: list[tuple[Change, str]] = [
    (
        lambda them: _pod(them, "gateway")["securityContext"].update(runAsUser=0),
        "Deployment gateway: may run as root (runAsNonRoot and a runAsUser other than 0 are needed)",
    ),
    (
        lambda them: _pod(them, "gateway")["securityContext"].pop("seccompProfile"),
        "Deployment gateway: its seccompProfile is not RuntimeDefault",
    ),
    (
        lambda them: _pod(them, "gateway").pop("automountServiceAccountToken"),
        "Deployment gateway: is given a token for the API of Kubernetes",
    ),
    (
        lambda them: _pod(them, "gateway").pop("topologySpreadConstraints"),
        "Deployment gateway: has no topologySpreadConstraints",
    ),
    (
        lambda them: _container(them, "notifier")["securityContext"].pop("readOnlyRootFilesystem"),
        "Deployment notifier, container notifier: readOnlyRootFilesystem is not true",
    ),
    (
        lambda them: _container(them, "notifier")["securityContext"].update(allowPrivilegeEscalation=True),
        "Deployment notifier, container notifier: allowPrivilegeEscalation is not false",
    ),
    (
        lambda them: _container(them, "notifier")["securityContext"]["capabilities"].update(add=["NET_RAW"]),
        "Deployment notifier, container notifier: its capabilities are not dropped",
    ),
    (
        lambda them: _container(them, "notifier")["resources"]["limits"].pop("memory"),
        "Deployment notifier, container notifier: has no limits of memory",
    ),
    (
        lambda them: _container(them, "valkey").update(image="valkey/valkey:latest"),
        "Deployment valkey, container valkey: "
        "the image 'valkey/valkey:latest' has neither a version nor a digest",
    ),
    (
        lambda them: _container(them, "valkey").update(image="registry:5000/valkey"),
        "Deployment valkey, container valkey: "
        "the image 'registry:5000/valkey' has neither a version nor a digest",
    ),
    (
        lambda them: _container(them, "projector").pop("readinessProbe"),
        "Deployment projector, container projector: has no readinessProbe",
    ),
    (
        lambda them: _container(them, "projector")["readinessProbe"]["httpGet"].update(port="http"),
        "Deployment projector, container projector: "
        "readinessProbe asks at the port 'http', which it does not have",
    ),
    (
        lambda them: _container(them, "projector")["readinessProbe"]["httpGet"].update(path="/ready"),
        "Deployment projector, container projector: "
        "readinessProbe asks for '/ready', which no service answers",
    ),
    (
        lambda them: _drop(them, ("PodDisruptionBudget", "projector")),
        "Deployment projector: has no PodDisruptionBudget",
    ),
    (lambda them: _drop(them, ("NetworkPolicy", "projector")), "Deployment projector: has no NetworkPolicy"),
    (
        lambda them: _container(them, "gateway").update(args=["gateways"]),
        "Deployment gateway, container gateway: the image has no service 'gateways'",
    ),
    (
        lambda them: _set(them, "gateway", "AGENTCHAT_RUN_SLOTS", "9"),
        "Deployment gateway, container gateway: AGENTCHAT_RUN_SLOTS is no setting of gateway",
    ),
    (
        lambda them: _unset(them, "gateway", "AGENTCHAT_NATS_URL_FILE"),
        "Deployment gateway, container gateway: AGENTCHAT_NATS_URL is not set",
    ),
    (
        lambda them: _set(them, "gateway", "AGENTCHAT_NATS_URL_FILE", "/run/secrets/nats"),
        "Deployment gateway, container gateway: AGENTCHAT_NATS_URL_FILE names /run/secrets/nats, "
        "which is not mounted",
    ),
    (
        lambda them: _set(them, "gateway", "AGENTCHAT_DEMO_KEY", "sk-ac-1"),
        "Deployment gateway, container gateway: AGENTCHAT_DEMO_KEY is secret, so it belongs into a file "
        "(AGENTCHAT_DEMO_KEY_FILE)",
    ),
    (
        lambda them: _set(them, "gateway", "AGENTCHAT_MAX_CONNECTIONS", "0"),
        "Deployment gateway, container gateway: AGENTCHAT_MAX_CONNECTIONS '0' cannot be used: "
        "expected a whole number >= 1",
    ),
    (
        lambda them: _set(them, "gateway", "AGENTCHAT_TRUSTED_PROXIES", "10.0.0.0/33"),
        "Deployment gateway, container gateway: AGENTCHAT_TRUSTED_PROXIES",
    ),
    (
        lambda them: _unset(them, "gateway", "AGENTCHAT_SECRET_KEY_FILE"),
        "Deployment gateway, container gateway: "
        "AGENTCHAT_SECRET_KEY is not set, and AGENTCHAT_ADMIN_TOKEN needs it",
    ),
    (
        lambda them: _one(them, "Job", "migrate")["spec"].update(backoffLimit="many"),
        "Job migrate: spec.backoffLimit: 'many' is not of type 'integer', 'null'",
    ),
    (
        lambda them: _one(them, "Deployment", "gateway")["spec"].update(replica=2),
        "Deployment gateway: spec: Additional properties are not allowed ('replica' was unexpected)",
    ),
    (
        lambda them: them.append(copy.deepcopy(_one(them, "Service", "gateway"))),
        "Service gateway (v1) occurs 2 times",
    ),
]


@pytest.mark.parametrize(("change", "finding"), _WRONG, ids=[finding for _, finding in _WRONG])
def test_what_cannot_work_or_is_not_bounded_is_refused_by_name(change: Change, finding: str) -> None:
    manifests = base_manifests()
    change(manifests)
    found = kubernetes_findings(manifests, complete=False)
    assert [each for each in found if each.startswith(finding)], found


def test_people_may_sign_in_to_the_console_at_a_provider() -> None:
    """By the component: its patches fit to the base, and the console starts with its settings."""
    manifests = base_manifests()
    (patched,) = yaml.safe_load((KUBERNETES / "sign-in/kustomization.yaml").read_text())["patches"]
    console = _one(manifests, patched["target"]["kind"], patched["target"]["name"])
    for each in yaml.safe_load((KUBERNETES / "sign-in" / patched["path"]).read_text()):
        place: Any = console
        assert (each["op"], each["path"][-2:]) == ("add", "/-")
        for step in each["path"][1:-2].split("/"):
            place = place[int(step) if step.isdigit() else step]
        place.append(each["value"])
    found = kubernetes_findings(manifests, complete=False)
    assert [each.rpartition(" names ")[2] for each in found] == [
        "/run/secrets/oidc-client-secret, which is not mounted"
    ], "but for the Secret, which is yours to make"
    sources = _pod(manifests, "console")["volumes"][0]["projected"]["sources"]
    assert sources[-1] == {"secret": {"name": "agentchat-sign-in"}}


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_rendered_overlay_is_refused_nowhere(overlay: str) -> None:
    manifests = rendered(overlay)
    assert kubernetes_findings(manifests, complete=True) == []
    assert {each["kind"] for each in base_manifests()} <= {each["kind"] for each in manifests} | {"ConfigMap"}


_WRONG_TOGETHER: list[tuple[Change, str]] = [
    (
        lambda them: _pod(them, "gateway")["volumes"][0]["projected"]["sources"].append(
            {"secret": {"name": "mine"}}
        ),
        "Secret mine: is named, and `agentchat credentials all --kubernetes` does not make it",
    ),
    (
        lambda them: _drop(them, ("ExternalSecret", "agentchat-owner")),
        "Secret agentchat-owner: is made 0 times",
    ),
    (
        lambda them: them.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "agentchat-owner", "namespace": "agentchat"},
            }
        ),
        "Secret agentchat-owner: is made 2 times",
    ),
    (
        lambda them: _one(them, "ExternalSecret", "agentchat-owner")["spec"]["data"].clear(),
        "Secret agentchat-owner: its keys are [], and should be ['database-url']",
    ),
    (
        lambda them: _drop(them, ("Job", "migrate")),
        "Secret agentchat-owner: nothing uses it",
    ),
    (
        lambda them: _one(them, "HorizontalPodAutoscaler", "gateway")["spec"].update(minReplicas=40),
        "HorizontalPodAutoscaler gateway: from 40 to 12 replicas: the least is 2, and not above the most",
    ),
    (
        lambda them: _one(them, "ScaledObject", "orchestrator")["spec"].update(maxReplicaCount=60),
        "Cluster agentchat-postgres: max_connections is 800, and 87 processes take 1479",
    ),
    (
        lambda them: _one(them, "ScaledObject", "orchestrator")["spec"]["scaleTargetRef"].update(
            name="worker"
        ),
        "ScaledObject orchestrator: scales worker, which is not there",
    ),
    (
        lambda them: _one(them, "Deployment", "gateway")["spec"].update(replicas=2),
        "HorizontalPodAutoscaler gateway: "
        "Deployment gateway has replicas too, which every apply would set again",
    ),
    (
        lambda them: _one(them, "ScaledObject", "orchestrator")["spec"]["triggers"][0]["metadata"].update(
            consumer="tool-runner"
        ),
        "ScaledObject orchestrator: NATS has no consumer 'tool-runner' of 'REQUESTS'",
    ),
    (
        lambda them: _one(them, "StatefulSet", "nats")["spec"].update(replicas=1),
        "Deployment projector: AGENTCHAT_NATS_REPLICAS is 3, and NATS has 1 nodes",
    ),
    (
        lambda them: _one(them, "Service", "gateway")["spec"]["selector"].update(app="gateways"),
        "Service gateway: selects {'app': 'gateways'}, and no pod has these labels",
    ),
    (
        lambda them: _one(them, "Service", "gateway")["metadata"].update(namespace="default"),
        "Service gateway: is in the namespace 'default'",
    ),
]


@needs_kubectl
@pytest.mark.parametrize(
    ("change", "finding"), _WRONG_TOGETHER, ids=[finding for _, finding in _WRONG_TOGETHER]
)
def test_what_does_not_fit_together_is_refused_by_name(change: Change, finding: str) -> None:
    manifests = rendered("zonal")
    change(manifests)
    assert finding in kubernetes_findings(manifests, complete=True)


@needs_kubectl
def test_a_zone_may_be_lost_with_the_zonal_overlay() -> None:
    for each in rendered("zonal"):
        if each["kind"] in ("Deployment", "StatefulSet") and each["metadata"]["name"] != "valkey":
            spread = each["spec"]["template"]["spec"]["topologySpreadConstraints"]
            rules = {one["topologyKey"]: one["whenUnsatisfiable"] for one in spread}
            assert rules["topology.kubernetes.io/zone"] == "DoNotSchedule", each["metadata"]["name"]
            assert "kubernetes.io/hostname" in rules


def test_nats_in_kubernetes_has_the_bounds_of_every_nats_server() -> None:
    def bounds(text: str) -> dict[str, str]:
        return dict(
            re.findall(r"(?m)^\s*(max_payload|max_memory_store|max_file_store|sync_interval): (\S+)$", text)
        )

    ours = bounds((KUBERNETES / "servers" / "nats-server.conf").read_text())
    assert ours == bounds((KUBERNETES.parent / "nats.conf").read_text())
    assert len(ours) == 4


def test_the_store_of_a_node_is_larger_than_what_nats_may_fill() -> None:
    nats = _one(base_manifests(), "StatefulSet", "nats")
    (claim,) = nats["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"


def test_every_manifest_is_listed_by_a_kustomization() -> None:
    for listing in KUBERNETES.glob("**/kustomization.yaml"):
        text = yaml.safe_load(listing.read_text())
        named = {*text.get("resources", []), *(each["path"] for each in text.get("patches", []))}
        there = {path.name for path in listing.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert there == {name for name in named if not name.startswith("..")}, listing
