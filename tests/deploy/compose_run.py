"""Services of deploy/compose.yaml in containers of our image, on a network of their own.

A service's command, files, secrets and confinement are those of the Compose file. The program of a server is
mounted into our image, from the wheels, since there is no registry to get its own from.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from agentchat.ops.credentials import COMPOSE, write_all
from tests.deploy.container_settings import ROOT, with_defaults
from tests.support.contained import IMAGE

FILE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
_BRIDGE = "agentchat0"
_NETWORK = "10.213.77"
_PREFIX = "agentchat-rehearsal-"


class ComposeRun:
    """Containers that are started one by one, each at its own address. `folder` gets a copy of deploy/."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "deploy"
        self._addresses = {
            name: f"{_NETWORK}.{number}" for number, name in enumerate(FILE["services"], start=10)
        }
        shutil.copytree(
            ROOT / "deploy", self._folder, ignore=shutil.ignore_patterns("secrets", "__pycache__")
        )
        write_all(self._folder / "secrets", COMPOSE, datetime.now(UTC))
        for parent in (folder, self._folder):
            parent.chmod(0o711)

    def change(self, file: str, old: str, new: str) -> None:
        """In the copy: what the program at hand cannot do."""
        path = self._folder / file
        text = path.read_text()
        assert old in text, (file, old)
        path.write_text(text.replace(old, new))

    def start(
        self,
        name: str,
        programs: Mapping[Path, str],
        environ: Mapping[str, str] | None = None,
        *,
        command: tuple[str, ...] | None = None,
    ) -> None:
        """Start a service, with `programs` mounted where they are to be found."""
        service = FILE["services"][name]
        mounts = [f"{source}:{target}:ro" for source, target in programs.items()]
        words = [*service.get("entrypoint", ()), *map(str, command or service["command"])]
        ours = "agentchat" in service["image"]
        program = [] if ours else [f"--entrypoint={words.pop(0)}"]
        own = {**service.get("environment", {}), **(environ or {})}
        _podman(
            *("run", "--detach", "--init", f"--name={_PREFIX}{name}"),
            *(f"--network=ns:/run/netns/{_PREFIX}{name}", f"--hostname={name}"),
            *("--read-only", "--read-only-tmpfs=false"),
            *(f"--add-host={other}:{address}" for other, address in self._addresses.items()),
            *(f"--user={service['user']}", "--cap-drop=all", "--security-opt=no-new-privileges"),
            *("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"),
            *(f"--tmpfs={each}" for each in _tmpfs(service)),
            *(f"--volume={each}" for each in (*mounts, *self._volumes(service), *self._secrets(service))),
            *(f"--env={key}={with_defaults(value)}" for key, value in own.items()),
            *(*program, os.environ[IMAGE], *words),
        )

    def execute(self, name: str, *command: str) -> str:
        """What a command prints in a running container."""
        return _podman("exec", f"{_PREFIX}{name}", *command)

    def wait(self, name: str, *command: str, until: str = "", seconds: float = 120) -> str:
        """Until a command in a container prints `until`. Raises TimeoutError, and once it has ended."""
        end = time.monotonic() + seconds
        while True:
            try:
                answer = self.execute(name, *command)
                if until in answer:
                    return answer
            except subprocess.CalledProcessError as error:
                answer = str(error.stderr)
            if time.monotonic() > end or not self._runs(name):
                raise TimeoutError(f"{name}: {answer}\n{self.logs(name)}")
            time.sleep(0.5)

    def end_of(self, name: str) -> int:
        """The exit code of a job, once it has ended."""
        return int(_podman("wait", f"{_PREFIX}{name}"))

    def _runs(self, name: str) -> bool:
        state = _podman("inspect", "--format={{.State.Running}}", f"{_PREFIX}{name}")
        return state.strip() == "true"

    def logs(self, name: str) -> str:
        done = subprocess.run(
            [*_command(), "logs", "--tail=30", f"{_PREFIX}{name}"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    def kill(self, name: str) -> None:
        """At once, as when its machine is lost; its volumes stay."""
        _podman("rm", "--force", "--time=0", f"{_PREFIX}{name}")

    def _volumes(self, service: Mapping[str, Any]) -> Iterator[str]:
        user = int(service["user"].split(":")[0])
        for volume in service.get("volumes", []):
            source, target, *options = volume.split(":")
            path = (self._folder if source.startswith(".") else self._folder / "volumes") / source
            if not source.startswith(".") and not path.exists():
                path.mkdir(parents=True)
                os.chown(path, user, user)
            yield ":".join((str(path), target, *options))

    def _secrets(self, service: Mapping[str, Any]) -> Iterator[str]:
        for name in service.get("secrets", []):
            yield f"{self._folder / FILE['secrets'][name]['file']}:/run/secrets/{name}:ro"

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """A bridge, and a namespace for each service, which go afterwards, with all containers."""
        self._clear()
        try:
            _ip(f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up")
            for number, (name, address) in enumerate(self._addresses.items()):
                namespace = f"{_PREFIX}{name}"
                inside = f"netns exec {namespace} ip"
                _ip(
                    f"netns add {namespace}",
                    f"link add agentchat{number}o type veth peer name agentchat{number}i netns {namespace}",
                    f"link set agentchat{number}o master {_BRIDGE} up",
                    f"{inside} address add {address}/24 dev agentchat{number}i",
                    f"{inside} link set agentchat{number}i up",
                    f"{inside} link set lo up",
                )
            yield
        finally:
            self._clear()

    def _clear(self) -> None:
        """Also what an earlier run has left that was killed."""
        for name in self._addresses:
            subprocess.run([*_command(), "rm", "-f", f"{_PREFIX}{name}"], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "delete", f"{_PREFIX}{name}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "delete", _BRIDGE], capture_output=True, check=False)


def _tmpfs(service: Mapping[str, Any]) -> Iterator[str]:
    """podman takes no owner: with this mode every user may write."""
    for each in service.get("tmpfs", ()):
        yield re.sub(r":.*", "", each) + ":rw,mode=1777"


def _command() -> list[str]:
    return shlex.split(os.environ.get("PODMAN", "podman"))


def _podman(*arguments: str) -> str:
    done = subprocess.run([*_command(), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, arguments[:2], done.stdout, done.stderr)
    return done.stdout


def _ip(*commands: str) -> None:
    for command in commands:
        subprocess.run(["ip", *command.split()], check=True, capture_output=True)
