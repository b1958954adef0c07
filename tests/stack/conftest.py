"""A run folder of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentchat.ops.run_folder import RunFolder
from tests.harness import temporary_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Pytest's own is closed to the user that Postgres runs as where root runs the tests."""
    with temporary_folder() as path:
        yield path


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.create()
    return made
