"""A file store of the test's own folder, on the module's database."""

from pathlib import Path

import pytest

from agentchat.files.file_store import FileStore
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import Pool


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def objects(folder: Path) -> ObjectStore:
    return ObjectStore(folder.as_uri())


@pytest.fixture
def files(pool: Pool, objects: ObjectStore) -> FileStore:
    return FileStore(pool, objects)
