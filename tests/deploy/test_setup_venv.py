"""`deploy/setup-venv` installs into an environment with whichever Python is there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.test_image import TREE, choose_requirements


@pytest.mark.slow
def test_packages_are_installed_from_the_active_environment(tmp_path: Path) -> None:
    """It has no pip, because the first `make run` makes it without."""
    venv = tmp_path / "venv"
    python = venv / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (tmp_path / "requirements.lock").write_text(choose_requirements("build"))
    member = TREE / "libs" / "contracts"

    subprocess.run(
        ["sh", str(TREE / "deploy" / "setup-venv"), "all", str(venv), str(member)],
        cwd=tmp_path,
        env=dict(os.environ, PYTHON=str(python)),
        check=True,
    )

    found = subprocess.run(
        [python, "-c", "import agentchat.contracts as found; print(found.__file__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.startswith(str(member))
