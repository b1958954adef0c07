"""Files in a folder: stored, found by their owners only, and read back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentchat.contracts.files import MAX_FILE_BYTES
from agentchat.contracts.ids import make_id
from agentchat.contracts.ownership import Owner
from agentchat.files.errors import FileGone, FilesUnavailable, FileTooLarge, QuotaExceeded
from agentchat.files.file_store import FileStore, sum_file_bytes
from agentchat.files.object_store import ObjectStore
from agentchat.runtime.postgres import Pool
from agentchat.runtime.settings import SettingsError
from tests.files.images import make_png


async def split(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1000):
        yield content[start : start + 1000]


async def test_a_file_is_found_and_read_back(files: FileStore, folder: Path) -> None:
    account, content = make_id(), make_png()
    stored = await files.put(account, "ada", "../my\tshop/parcel.png", split(content), expires_seconds=60)
    assert (stored.media_type, stored.bytes, stored.name) == ("image/png", len(content), "parcel.png")
    file = await files.get(Owner(account), stored.file_id)
    assert file is not None
    assert (file.stored, file.user_id, file.purpose) == (stored, "ada", "user_data")
    assert file.expires_at is not None
    assert file.created_at < file.expires_at
    assert await files.read(account, stored.sha256) == content
    assert b"".join([chunk async for chunk in files.stream(account, stored.sha256)]) == content
    assert (folder / account / stored.sha256).read_bytes() == content


async def test_a_user_sees_own_files_only(files: FileStore) -> None:
    account = make_id()
    own, other, shared = [await files.put(account, user, "a", b"text") for user in ("ada", "bob", None)]
    ada = Owner(account, "ada")
    for file, visible in ((own, True), (other, False), (shared, False)):
        assert (await files.get(ada, file.file_id) is not None) is visible
        assert await files.get(Owner(account), file.file_id) is not None
        assert await files.get(Owner(make_id()), file.file_id) is None
    assert [file.stored for file in await files.list_files(ada, limit=5)] == [own]
    newest = await files.list_files(Owner(account), limit=2)
    assert [file.stored for file in newest] == [shared, other]
    rest = await files.list_files(Owner(account), limit=2, before=other.file_id)
    assert [file.stored for file in rest] == [own]
    assert not await files.delete(ada, other.file_id)


async def test_a_file_beyond_a_bound_leaves_nothing(files: FileStore, pool: Pool, folder: Path) -> None:
    account = make_id()
    with pytest.raises(FileTooLarge):
        await files.put(account, None, "a", split(b"x" * (MAX_FILE_BYTES + 1)))
    with pytest.raises(QuotaExceeded):
        await files.put(account, None, "a", b"text", room=3)
    assert await files.list_files(Owner(account), limit=5) == []
    assert not (folder / account).exists()
    await files.put(account, None, "a", b"text", room=4)
    assert await sum_file_bytes(pool, account) == {account: 4}


async def test_equal_bytes_go_with_the_last_file(files: FileStore) -> None:
    account = make_id()
    first, second = [await files.put(account, None, "a", b"same") for _ in range(2)]
    assert await files.delete(Owner(account), first.file_id)
    assert await files.read(account, second.sha256) == b"same"
    assert await files.delete(Owner(account), second.file_id)
    with pytest.raises(FileGone):
        await files.read(account, second.sha256)
    assert not await files.delete(Owner(account), second.file_id)


async def test_a_store_that_fails_shows_no_file(pool: Pool, objects: ObjectStore, folder: Path) -> None:
    account = make_id()
    (folder / account).write_text("a file where the folder should be")
    files = FileStore(pool, objects)
    with pytest.raises(FilesUnavailable):
        await files.put(account, None, "a", b"text")
    assert await files.list_files(Owner(account), limit=5) == []


@pytest.mark.parametrize("url", ["memory:///", "nope://a", "/folder", "file:///proc/nope", "s3://"])
def test_a_wrong_url_is_named(url: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_FILES_URL"):
        ObjectStore(url)


def test_a_bucket_is_opened_without_a_call() -> None:
    ObjectStore("s3://bucket/prefix")


async def test_an_extracted_text_is_stored_beside_its_file(files: FileStore, folder: Path) -> None:
    account = make_id()
    file = await files.put(account, None, "a", b"text")
    assert await files.read_text(account, file.sha256, 1) is None
    await files.write_text(account, file.sha256, 1, "extracted\ntext")
    assert await files.read_text(account, file.sha256, 1) == "extracted\ntext"
    assert await files.read_text(account, file.sha256, 2) is None
    assert await files.find_stored(account, {file.file_id, "other"}) == {file.file_id}
    await files.delete(Owner(account), file.file_id)
    await files.write_text(account, file.sha256, 1, "late")
    assert list((folder / account).iterdir()) == []
    assert await files.find_stored(account, {file.file_id}) == set()
