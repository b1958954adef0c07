"""Keep bytes in a folder or a bucket, by account and SHA-256."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, from_url

from agentchat.files.errors import FileGone, FilesUnavailable
from agentchat.runtime.settings import SettingsError

SECONDS = 60.0
"""The time for one call of the store."""

_SCHEMES = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss")
TEXT = ".text"
"""The ending of the object beside a file with its extracted text."""

_CHUNK = 256 * 1024


class ObjectStore:
    """The bytes of all files. Each is written whole, so that no reader finds a part of it."""

    def __init__(self, url: str) -> None:
        """Check the URL without a call of the store; make a folder. Raises SettingsError."""
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise SettingsError(
                f"AGENTCHAT_FILES_URL {url!r} cannot be used: it must begin with file, s3, gs or az"
            )
        self._folder = Path(unquote(parts.path)) if parts.scheme == "file" else None
        try:
            if self._folder is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                self._store = LocalStore(self._folder)
            else:
                self._store = from_url(url)  # type: ignore[assignment]
        except (BaseError, OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise SettingsError(f"AGENTCHAT_FILES_URL {url!r} cannot be used: {reason}") from None

    async def write(self, account_id: str, sha256: str, content: bytes) -> None:
        """Write the bytes, also if they exist. Raises FilesUnavailable."""
        with _translate():
            async with asyncio.timeout(SECONDS):
                await obstore.put_async(self._store, f"{account_id}/{sha256}", content, use_multipart=False)

    async def read(self, account_id: str, sha256: str) -> bytes:
        """Return the bytes. Raises FileGone, FilesUnavailable."""
        with _translate():
            async with asyncio.timeout(SECONDS):
                found = await obstore.get_async(self._store, f"{account_id}/{sha256}")
                return bytes(await found.bytes_async())

    async def stream(self, account_id: str, sha256: str) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks. Raises FileGone before the first, FilesUnavailable."""
        with _translate():
            async with asyncio.timeout(SECONDS):
                found = await obstore.get_async(self._store, f"{account_id}/{sha256}")
            async for chunk in found.stream(min_chunk_size=_CHUNK):
                yield bytes(chunk)

    async def delete(self, account_id: str, sha256: str) -> None:
        """Delete the bytes and their text if they exist, and what a killed writer left of them.

        Raises FilesUnavailable.
        """
        for name in (f"{sha256}{TEXT}", sha256):
            with contextlib.suppress(FileGone), _translate():
                if self._folder is not None:
                    for unfinished in (self._folder / account_id).glob(f"{name}#*"):
                        unfinished.unlink(missing_ok=True)
                async with asyncio.timeout(SECONDS):
                    await obstore.delete_async(self._store, f"{account_id}/{name}")


@contextlib.contextmanager
def _translate() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise FileGone("The file has been deleted.") from None
    except (BaseError, OSError, TimeoutError) as error:
        raise FilesUnavailable(str(error).strip().partition("\n")[0] or "no answer in time") from error
