"""Store the files that a request brings, and delete them if it is refused before it is published."""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from agentchat.contracts.files import MAX_IMAGE_BYTES, StoredFile
from agentchat.contracts.ids import is_uuid
from agentchat.contracts.messages import ChatRequested
from agentchat.directory.agent_config import load_agent
from agentchat.directory.model_file_types import find_model_inputs
from agentchat.files.errors import FilesUnavailable, FileTooLarge, QuotaExceeded, UnsupportedFile
from agentchat.files.file_store import FileStore
from agentchat.gateway.attachments.requested_attachment import RequestedAttachment, build_attachment_refusal
from agentchat.gateway.http.problems import Refusal
from agentchat.net_guard.guarded_download import Downloader, NotDownloaded
from agentchat.runtime import logs
from agentchat.runtime.postgres import DatabaseUnavailable, Pool

STORE_SECONDS = 10.0
"""The time for fetching and storing all files of a request."""

_NO_IMAGES = "The agent's model sees no images. Ask another agent, or send a document."
_LARGE_IMAGE = f"Models take images of at most {MAX_IMAGE_BYTES // 1024**2} MiB. Send a smaller one."
_UNKNOWN = "There is no such file. Upload it again."


class MessageFiles:
    """The files of one request. The same files are stored once, however often the request is published."""

    def __init__(
        self,
        pool: Pool,
        store: FileStore,
        downloader: Downloader,
        attachments: Sequence[RequestedAttachment],
        room: int | None = None,
    ) -> None:
        """Keep what stores the files; `room` is what the plan has left, in bytes."""
        self._pool = pool
        self._store = store
        self._downloader = downloader
        self._room = room
        self._attachments = attachments
        self._stored: dict[str, StoredFile] = {}  # by the path of the part
        self._new: list[str] = []
        self._ends_at: float | None = None  # by the clock of the loop

    @property
    def marks(self) -> tuple[str, ...]:
        """The files of the message, as its Idempotency-Key knows them."""
        return tuple(each.mark for each in self._attachments if each.message is None)

    async def attach(self, request: ChatRequested) -> ChatRequested:
        """Return the request with the files of its message. Raises Refusal, DatabaseUnavailable."""
        files = await self._store_all(request, None)
        return replace(request, attachments=files) if files else request

    async def attach_history(self, request: ChatRequested) -> ChatRequested:
        """Return the request with the files of its history. Raises as `attach`."""
        history = [
            replace(message, attachments=files)
            if (files := await self._store_all(request, index))
            else message
            for index, message in enumerate(request.history)
        ]
        return replace(request, history=tuple(history))

    async def discard(self, request: ChatRequested) -> None:
        """Delete what this request has stored. What cannot be deleted now is left to the sweep."""
        for file_id in self._new:
            try:
                await self._store.delete(request, file_id)
            except DatabaseUnavailable as error:
                logs.get_logger("gateway").warning("file_not_deleted", file_id=file_id, reason=str(error))
        self._new, self._stored = [], {}

    async def _store_all(self, request: ChatRequested, message: int | None) -> tuple[StoredFile, ...]:
        wanted = [each for each in self._attachments if each.message == message]
        if self._ends_at is None:
            self._ends_at = asyncio.get_running_loop().time() + STORE_SECONDS
        for each in wanted:
            if each.path not in self._stored:
                try:
                    async with asyncio.timeout_at(self._ends_at):
                        self._stored[each.path] = await self._store_one(request, each)
                except TimeoutError:
                    raise build_attachment_refusal(each.path, "The file did not arrive in time.") from None
        files = tuple(self._stored[each.path] for each in wanted)
        await self._check_model(request, wanted, files)
        return files

    async def _store_one(self, request: ChatRequested, wanted: RequestedAttachment) -> StoredFile:
        path = wanted.path
        if wanted.file_id is not None:
            found = await self._store.get(request, wanted.file_id) if is_uuid(wanted.file_id) else None
            if found is None:
                raise build_attachment_refusal(path, _UNKNOWN, "file_not_found")
            file = found.stored
        else:
            try:
                file = await self._put(request, wanted)
            except FileTooLarge as error:
                raise build_attachment_refusal(path, str(error), "file_too_large") from None
            except (UnsupportedFile, NotDownloaded) as error:
                raise build_attachment_refusal(path, str(error)) from None
            except QuotaExceeded as error:
                raise Refusal("storage_full", str(error)) from None
            except FilesUnavailable:
                raise Refusal("overloaded", "Files cannot be stored at present. Try again.") from None
            self._new.append(file.file_id)
        if wanted.is_image and not file.is_image:
            raise build_attachment_refusal(path, f"This is no image, but {file.media_type}.")
        return file

    async def _put(self, request: ChatRequested, wanted: RequestedAttachment) -> StoredFile:
        room = None if self._room is None else self._room - sum(f.bytes for f in self._stored.values())
        put = partial(self._store.put, request.account_id, request.user_id, wanted.name, room=room)
        if wanted.data is not None:
            return await put(wanted.data, claimed_type=wanted.media_type)
        download = self._downloader.download(request.account_id, wanted.url or "")
        async with contextlib.aclosing(download) as chunks:
            return await put(chunks, claimed_type=wanted.media_type)

    async def _check_model(
        self, request: ChatRequested, wanted: Sequence[RequestedAttachment], files: Sequence[StoredFile]
    ) -> None:
        """Raise Refusal, 400, for an image that is too large, or that the agent's model does not see."""
        images = [(each, file) for each, file in zip(wanted, files, strict=True) if file.is_image]
        for each, file in images:
            if file.bytes > MAX_IMAGE_BYTES:
                raise build_attachment_refusal(each.path, _LARGE_IMAGE)
        if not images:
            return
        agent = await load_agent(
            self._pool,
            request.account_id,
            request.agent_id,
            conversation_id=request.conversation_id,
        )
        if agent is None:
            raise Refusal("agent_not_found")
        if not find_model_inputs(agent.provider, agent.model, agent.vision).images:
            raise build_attachment_refusal(images[0][0].path, _NO_IMAGES)
