"""The release before this one, built from its commit in an environment of its own.

The pair of versions that run side by side is named here alone: raise it with each release.
"""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

BEFORE = "b62a4105b644b4d8575c9951fc3a0e99ce2efa7f"
"""Release 0.9.0."""

STAY = ("notifier",)
"""Services that do not go back to it (docs/operate/production.md, Upgrades)."""

FINISH, REOPEN = "migrate --finish", "migrate --reopen"
"""Commands of `agentchat` of this version: when all processes run it, and before they go back."""

_FOLDER = Path(".cache/releases")


def python_of(commit: str) -> str:
    """The interpreter of a commit's environment, by its lock; made where it is not there yet.

    Raises CalledProcessError where the commit is unknown here, or its packages cannot be installed.
    """
    folder = (_FOLDER / commit).resolve()
    if not (folder / ".venv/.ready").exists():
        packed = subprocess.run(("git", "archive", commit), check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as tree:
            tree.extractall(folder, filter="data")
        members = [str(path.parent.relative_to(folder)) for path in folder.glob("*s/*/pyproject.toml")]
        environ = os.environ | {"PYTHON": sys.executable}
        subprocess.run(
            ("sh", "deploy/setup-venv", ".venv", *sorted(members)), cwd=folder, env=environ, check=True
        )
    return str(folder / ".venv/bin/python")
