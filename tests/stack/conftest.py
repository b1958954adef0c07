"""A run folder and ports of a test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.folder import RunFolder
from ops.ports import Ports


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "run")
    made.create()
    return made


@pytest.fixture
def ports() -> Iterator[Ports]:
    taken = Ports()
    yield taken
    taken.close()
