"""What a manifest of Kubernetes has to have: bounds, guards, Secrets that are there, settings that do."""

import functools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import kubernetes_validate

from bus.streams import CONSUMERS
from deploy.manifest_settings import settings_findings
from ops.credentials import SECRETS

Manifest: TypeAlias = dict[str, Any]

_VERSION = "1.32"
"""Of Kubernetes' schemas: the oldest that the manifests are for."""
_OTHERS = {"postgresql.cnpg.io/v1", "keda.sh/v1alpha1", "external-secrets.io/v1"}
"""Of operators, whose schemas are not at hand."""
_WITH_PODS = ("Deployment", "StatefulSet", "Job", "DaemonSet", "CronJob", "Pod")
_CONNECTIONS = 17
"""Of one process at most (docs/operate/production.md)."""
_RESERVED = 20
"""Of Postgres for standbys, operators and migrations."""
_HEALTH = ("/healthz", "/readyz")
_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*[\w.-]+(?::v?\d[\w.-]*)?(?:@sha256:[0-9a-f]{64})?")


def kubernetes_findings(manifests: list[Manifest], *, complete: bool) -> list[str]:
    """Of some manifests; `complete`: of all that an overlay applies, so that they have what they name."""
    found: list[str] = []
    for each in manifests:
        found += _schema_findings(each)
        if pod := _pod_of(each):
            found += _pod_findings(_name(each), pod, each["kind"])
    for each in manifests:
        if each["kind"] in ("Deployment", "StatefulSet"):
            found += _guarded_findings(each, manifests)
    found += _scaler_findings(manifests)
    if complete:
        found += _secret_findings(manifests)
        found += _address_findings(manifests)
        found += _connection_findings(manifests)
        found += _claim_findings(manifests)
    repeated = Counter(f"{_name(each)} ({each['apiVersion']})" for each in manifests)
    return found + [f"{name} occurs {number} times" for name, number in repeated.items() if number > 1]


def _name(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


def _pod_of(manifest: Manifest) -> Manifest | None:
    if manifest["kind"] not in _WITH_PODS:
        return None
    template = _template_of(manifest)
    pod: Manifest = template["spec"] if template else manifest["spec"]
    return pod


def _template_of(manifest: Manifest) -> Manifest:
    spec: Manifest = manifest["spec"].get("jobTemplate", manifest).get("spec", {})
    template: Manifest = spec.get("template", {})
    return template


def _schema_findings(manifest: Manifest) -> tuple[str, ...]:
    return () if manifest["apiVersion"] in _OTHERS else _findings_of(json.dumps(manifest, sort_keys=True))


@functools.cache  # each overlay has the base's again, and a schema takes 10 ms to load
def _findings_of(text: str) -> tuple[str, ...]:
    manifest = json.loads(text)
    try:
        kubernetes_validate.validate(manifest, _VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        place = ".".join(map(str, error.path)) or "manifest"
        return (f"{_name(manifest)}: {place}: {str(error.message).splitlines()[0][:200]}",)
    except kubernetes_validate.SchemaNotFoundError:
        return (
            f"{_name(manifest)}: Kubernetes {_VERSION} has no {manifest['apiVersion']} {manifest['kind']}",
        )
    return ()


def _pod_findings(name: str, pod: Manifest, kind: str) -> Iterator[str]:
    security = pod.get("securityContext", {})
    if not security.get("runAsNonRoot") or not security.get("runAsUser"):
        yield f"{name}: may run as root (runAsNonRoot and a runAsUser other than 0 are needed)"
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield f"{name}: its seccompProfile is not RuntimeDefault"
    if pod.get("automountServiceAccountToken") is not False:
        yield f"{name}: is given a token for the API of Kubernetes"
    if kind in ("Deployment", "StatefulSet") and not pod.get("topologySpreadConstraints"):
        yield f"{name}: has no topologySpreadConstraints"
    files = set(_mounted_files(pod))
    for container in pod["containers"] + pod.get("initContainers", []):
        yield from _container_findings(f"{name}, container {container['name']}", container, kind)
        if container["image"].partition("@")[0].partition(":")[0].rpartition("/")[2] == "agentchat":
            environ = {each["name"]: each.get("value", "") for each in container.get("env", [])}
            command = container.get("args") or ["gateway"]
            yield from settings_findings(f"{name}, container {container['name']}", command, environ, files)


def _mounted_files(pod: Manifest) -> Iterator[str]:
    """By the files that `agentchat credentials` makes Secrets of."""
    mounts = {
        mount["name"]: mount["mountPath"]
        for container in pod["containers"]
        for mount in container.get("volumeMounts", [])
    }
    for volume in pod.get("volumes", []):
        for source in volume.get("projected", {}).get("sources", []):
            for key in SECRETS.get(source.get("secret", {}).get("name", ""), ()):
                yield f"{mounts.get(volume['name'], '')}/{key}"


def _container_findings(where: str, container: Manifest, kind: str) -> Iterator[str]:
    security = container.get("securityContext", {})
    for field, wanted in (("allowPrivilegeEscalation", False), ("readOnlyRootFilesystem", True)):
        if security.get(field) is not wanted:
            yield f"{where}: {field} is not {str(wanted).lower()}"
    if security.get("capabilities") != {"drop": ["ALL"]}:
        yield f"{where}: its capabilities are not dropped"
    if security.get("runAsUser") == 0 or security.get("privileged"):
        yield f"{where}: runs as root"
    yield from image_findings(where, container["image"])
    for bound in ("requests", "limits"):
        for resource in ("cpu", "memory"):
            if resource not in container.get("resources", {}).get(bound, {}):
                yield f"{where}: has no {bound} of {resource}"
    if kind not in ("Job", "CronJob"):
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container.get(probe, {}).get("httpGet") or container.get(probe, {}).get("tcpSocket")
            if asked is None:
                yield f"{where}: has no {probe}"
            elif asked.get("path", _HEALTH[0]).partition("?")[0] not in _HEALTH:
                yield f"{where}: {probe} asks for {asked['path']!r}, which no service answers"
            elif asked["port"] not in ports:
                yield f"{where}: {probe} asks at the port {asked['port']!r}, which it does not have"


def image_findings(where: str, image: str) -> Iterator[str]:
    name = image.rpartition("/")[2]
    if not _IMAGE.fullmatch(image) or not ("@sha256:" in name or re.search(r":v?\d", name)):
        yield f"{where}: the image {image!r} has neither a version nor a digest"


def _guarded_findings(workload: Manifest, manifests: list[Manifest]) -> Iterator[str]:
    labels = workload["spec"]["template"]["metadata"]["labels"]
    if not _selects(workload["spec"]["selector"], labels):
        yield f"{_name(workload)}: does not select its own pods"
    for kind, field in (("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector")):
        selectors = [each["spec"].get(field, {}) for each in manifests if each["kind"] == kind]
        if not any(selector and _selects(selector, labels) for selector in selectors):
            yield f"{_name(workload)}: has no {kind}"
    for spread in workload["spec"]["template"]["spec"].get("topologySpreadConstraints", []):
        if not _selects(spread.get("labelSelector", {}), labels):
            yield f"{_name(workload)}: its spread over {spread['topologyKey']} counts other pods"


def _selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    wanted: Mapping[str, str] = selector.get("matchLabels", {})
    return labels.items() >= wanted.items()


def _scaler_findings(manifests: list[Manifest]) -> Iterator[str]:
    replicas = {
        each["metadata"]["name"]: each["spec"].get("replicas")
        for each in manifests
        if each["kind"] == "Deployment"
    }
    for each in manifests:
        spec, name = each.get("spec", {}), _name(each)
        if each["kind"] == "HorizontalPodAutoscaler":
            least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
        elif each["kind"] == "ScaledObject":
            least, most = spec.get("minReplicaCount", 0), spec.get("maxReplicaCount", 100)
            yield from _trigger_findings(name, spec["triggers"])
        else:
            continue
        target = spec["scaleTargetRef"]["name"]
        if not 2 <= least <= most:
            yield f"{name}: from {least} to {most} replicas: the least is 2, and not above the most"
        if replicas and target not in replicas:
            yield f"{name}: scales {target}, which is not there"
        elif replicas.get(target) is not None:
            yield f"{name}: Deployment {target} has replicas too, which every apply would set again"


def _trigger_findings(name: str, triggers: list[Manifest]) -> Iterator[str]:
    for trigger in triggers:
        asked = trigger["metadata"]
        consumer = CONSUMERS.get(asked.get("stream", ""), {}).get("name")
        if consumer is None or consumer != asked.get("consumer"):
            yield f"{name}: NATS has no consumer {asked.get('consumer')!r} of {asked.get('stream')!r}"


def _connection_findings(manifests: list[Manifest]) -> Iterator[str]:
    """Postgres takes the connections of as many processes as there may be."""
    most = {each["metadata"]["name"]: each["spec"].get("replicas", 1) for each in manifests if _is_ours(each)}
    for each in manifests:
        spec = each.get("spec", {})
        if each["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"):
            most[spec["scaleTargetRef"]["name"]] = spec.get("maxReplicas") or spec.get("maxReplicaCount", 100)
    wanted = sum(most.values()) * _CONNECTIONS
    for each in manifests:
        if each["kind"] == "Cluster" and each["apiVersion"].startswith("postgresql"):
            given = int(each["spec"]["postgresql"]["parameters"].get("max_connections", 100))
            if given < wanted + _RESERVED:
                processes = f"{sum(most.values())} processes take {wanted}"
                yield f"{_name(each)}: max_connections is {given}, and {processes}"


def _claim_findings(manifests: list[Manifest]) -> Iterator[str]:
    claims = {each["metadata"]["name"] for each in manifests if each["kind"] == "PersistentVolumeClaim"}
    for each in manifests:
        for volume in (_pod_of(each) or {}).get("volumes", []):
            name = volume.get("persistentVolumeClaim", {}).get("claimName")
            if name is not None and name not in claims:
                yield f"{_name(each)}: claims {name}, which is not there"


def _is_ours(manifest: Manifest) -> bool:
    containers = (_pod_of(manifest) or {}).get("containers", []) if manifest["kind"] == "Deployment" else []
    names = {variable["name"] for each in containers for variable in each.get("env", [])}
    return "AGENTCHAT_DATABASE_URL_FILE" in names


def _secret_findings(manifests: list[Manifest]) -> Iterator[str]:
    """Each Secret that is named is one of `agentchat credentials`, and is made here once or nowhere."""
    named = {name for each in manifests for name in _secrets_in(each) if each["kind"] != "ExternalSecret"}
    for name in sorted(named - SECRETS.keys()):
        yield f"Secret {name}: is named, and `agentchat credentials all --kubernetes` does not make it"
    for name in sorted(SECRETS.keys() - named):
        yield f"Secret {name}: nothing uses it"
    external = [each["spec"] for each in manifests if each["kind"] == "ExternalSecret"]
    made = Counter(spec["target"]["name"] for spec in external)
    made.update(each["metadata"]["name"] for each in manifests if each["kind"] == "Secret")
    for name in sorted(made.keys() | (SECRETS.keys() if made else set())):
        if made[name] != 1:
            yield f"Secret {name}: is made {made[name]} times"
    for spec in external:
        name, keys = spec["target"]["name"], {each["secretKey"] for each in spec["data"]}
        if keys != set(SECRETS.get(name, ())):
            yield f"Secret {name}: its keys are {sorted(keys)}, and should be {sorted(SECRETS.get(name, ()))}"


def _secrets_in(value: object, under: str = "") -> Iterator[str]:
    """The names of Secrets anywhere in a manifest."""
    if isinstance(value, list):
        for each in value:
            yield from _secrets_in(each, under)
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("serverTLSSecret", "serverCASecret", "secretName") and isinstance(inner, str):
                yield inner
            elif key == "name" and under in ("secret", "secretRefs", "secretKeyRef", "secretRef"):
                yield str(inner)
            else:
                yield from _secrets_in(inner, key)


def _address_findings(manifests: list[Manifest]) -> Iterator[str]:
    """Services and policies select pods that are there; all is in one namespace."""
    templates = [_template_of(each) for each in manifests if each["kind"] in _WITH_PODS]
    pods = [each["metadata"]["labels"] for each in templates if each]
    for each in manifests:
        selector = {"matchLabels": each["spec"].get("selector", {})} if each["kind"] == "Service" else {}
        if each["kind"] == "NetworkPolicy":
            selector = each["spec"]["podSelector"]
        wanted = selector.get("matchLabels", {})
        if "app" in wanted and not any(_selects(selector, labels) for labels in pods):
            yield f"{_name(each)}: selects {wanted}, and no pod has these labels"
        if each["kind"] != "Namespace" and each["metadata"].get("namespace") != "agentchat":
            yield f"{_name(each)}: is in the namespace {each['metadata'].get('namespace')!r}"
    nodes = sum(each["spec"]["replicas"] for each in manifests if _name(each) == "StatefulSet nats")
    for each in manifests:
        for container in (_pod_of(each) or {}).get("containers", []):
            for variable in container.get("env", []):
                name, value = variable["name"], variable.get("value", "")
                if name == "AGENTCHAT_NATS_REPLICAS" and value.isdigit() and 0 < nodes < int(value):
                    yield f"{_name(each)}: {name} is {value}, and NATS has {nodes} nodes"
