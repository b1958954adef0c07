"""`python -m deploy.check_manifests`: what is wrong in deploy/kubernetes and deploy/compose.yaml, by name.

Each file of the base is checked as it is, and each overlay as `kubectl kustomize` renders it. Without
kubectl, one line says that the overlays are skipped.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.manifest_policy import Manifest, image_findings, kubernetes_findings
from deploy.manifest_settings import settings_findings

ROOT = Path(__file__).resolve().parents[1]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("small", "zonal")
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")
"""A variable of the Compose file, which has a default."""


def with_defaults(value: object) -> str:
    """A value of the Compose file, where its variables are not set."""
    return _DEFAULT.sub(r"\1", str(value))


def compose_findings(compose: Manifest) -> list[str]:
    """Of the Compose file, read as YAML."""
    found: list[str] = []
    secrets = compose["secrets"]
    used: Counter[str] = Counter()
    for name, service in compose["services"].items():
        named = [each if isinstance(each, str) else each["source"] for each in service.get("secrets", [])]
        used.update(named)
        found += [f"{name}: the secret {each} is not defined" for each in named if each not in secrets]
        found += _compose_service_findings(name, service, {f"/run/secrets/{each}" for each in named})
    found += [f"the secret {name}: nothing uses it" for name in secrets if not used[name]]
    places = Counter(each["file"] for each in secrets.values())
    return found + [
        f"{file}: {number} secrets have this file" for file, number in places.items() if number > 1
    ]


def _compose_service_findings(name: str, service: Manifest, files: set[str]) -> Iterator[str]:
    image = with_defaults(service["image"])
    yield from image_findings(name, image)
    if not service.get("user") or service["user"].split(":")[0] in ("0", "root"):
        yield f"{name}: runs as root"
    if service.get("cap_drop") != ["ALL"] or service.get("cap_add") or service.get("privileged"):
        yield f"{name}: its capabilities are not dropped"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield f"{name}: may gain privileges"
    if service.get("read_only") is not True:
        yield f"{name}: may write to its image"
    for bound in ("mem_limit", "pids_limit", "logging", "restart"):
        if not service.get(bound):
            yield f"{name}: has no {bound}"
    if not image.startswith("agentchat:"):
        return
    environ = {key: with_defaults(value) for key, value in service.get("environment", {}).items()}
    yield from settings_findings(name, service["command"], environ, files)
    if name != "migrate":
        if service["depends_on"].get("migrate", {}).get("condition") != "service_completed_successfully":
            yield f"{name}: does not wait for the migration"
        if "healthcheck" not in service:
            yield f"{name}: has no healthcheck"


def read(path: Path) -> list[Manifest]:
    """The manifests in a file."""
    return [each for each in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader) if each]


def rendered(overlay: str) -> list[Manifest]:
    """An overlay's manifests. Raises CalledProcessError where it cannot be rendered."""
    command = ["kubectl", "kustomize", str(KUBERNETES / "overlays" / overlay)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [each for each in yaml.load_all(printed, Loader=yaml.CSafeLoader) if each]


def base_manifests() -> list[Manifest]:
    """Those in the files that the base and the servers list, without rendering."""
    manifests: list[Manifest] = []
    for kind in ("base", "servers"):
        listed = yaml.safe_load((KUBERNETES / kind / "kustomization.yaml").read_text())["resources"]
        manifests += [each for name in listed for each in read(KUBERNETES / kind / name)]
    return manifests


def version_findings(compose: Manifest) -> Iterator[str]:
    """Our image is of the version of this tree."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name, service in compose["services"].items():
        image = with_defaults(service["image"])
        if image.startswith("agentchat:") and image != f"agentchat:{version}":
            yield f"compose.yaml: {name}: the image is {image}, and this is {version}"


def main() -> int:
    """Check everything that can be checked here."""
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    found = [f"deploy/kubernetes: {each}" for each in kubernetes_findings(base_manifests(), complete=False)]
    found += [
        f"deploy/compose.yaml: {each}" for each in (*compose_findings(compose), *version_findings(compose))
    ]
    if shutil.which("kubectl"):
        for overlay in OVERLAYS:
            try:
                findings = kubernetes_findings(rendered(overlay), complete=True)
            except subprocess.CalledProcessError as error:
                findings = [error.stderr.strip()]
            found += [f"deploy/kubernetes/overlays/{overlay}: {each}" for each in findings]
    else:
        sys.stdout.write("deploy/kubernetes/overlays: skipped, there is no kubectl to render them\n")
    sys.stdout.write("".join(f"{each}\n" for each in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
