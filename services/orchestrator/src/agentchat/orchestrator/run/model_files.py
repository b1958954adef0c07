"""Give the model the files of its messages: images and PDFs as bytes, other documents as text.

A file is always one block, and the same one in each later call, or the provider's cache would miss: text is
extracted once and stored beside the file.
"""

import asyncio
import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agentchat.contracts.files import MAX_IMAGE_BYTES, StoredFile
from agentchat.conversations.aggregate.attached_files import (
    MOST_SHOWN,
    MOST_SHOWN_BYTES,
    count_hidden,
    list_shown_files,
    replace_files,
)
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.model_messages import Prompt
from agentchat.directory.agent_config import AgentConfig
from agentchat.directory.model_file_types import ModelInputs, find_model_inputs
from agentchat.files.errors import FileGone, FilesUnavailable
from agentchat.files.file_store import FileStore
from agentchat.files.media_types import PDF
from agentchat.knowledge.reading.read_file import TEXT_VERSION, extract_text
from agentchat.orchestrator.models import ModelFailure
from agentchat.runtime.fair_slots import FairSlots

Block = dict[str, Any]

MAX_PDF_BYTES = MOST_SHOWN_BYTES // 2
"""A larger PDF becomes text, or it would leave no room for others."""

_HIDDEN = f"[file {{}} is not shown any more: a prompt has at most {MOST_SHOWN} images and documents]"
_GONE = "[file {} was deleted]"
_UNSEEN = "[image {}: you cannot see images]"
_TOO_LARGE = f"[image {{}} is not shown: it has more than {MAX_IMAGE_BYTES // 1024**2} MiB]"
_UNAVAILABLE = "The files of this conversation cannot be read at the moment."


class ShownFiles(msgspec.Struct, frozen=True):
    """The blocks of a prompt's files, by file id. The first `hidden` of its `native` files are not shown.

    `gone` are the files that were deleted.
    """

    blocks: Mapping[str, Block] = {}
    native: frozenset[str] = frozenset()
    hidden: int = 0
    gone: frozenset[str] = frozenset()

    @property
    def changes(self) -> tuple[str, ...]:
        """The reasons why the beginning of a prompt differs from that of earlier ones with these files."""
        return (*((str(self.hidden),) if self.hidden else ()), *sorted(self.gone))

    def put_into(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the model's blocks in the places of its files."""
        if not self.blocks and not self.native:
            return prompt
        left = self.hidden

        def render(file: StoredFile) -> Block:
            nonlocal left
            if left and file.file_id in self.native:
                left -= 1
                return _build_text_block(_HIDDEN.format(file.name))
            return self.blocks[file.file_id]

        messages = replace_files(prompt.messages, render)
        # The JSON of settled messages is kept for other calls, but not that of files.
        return msgspec.structs.replace(prompt, messages=messages, settled=None)


class ModelFiles:
    """The files of one attempt, each of which is read once. `conversions` are the worker's slots for them."""

    def __init__(self, store: FileStore, conversions: FairSlots, account_id: str) -> None:
        self._store = store
        self._conversions = conversions
        self._account_id = account_id
        self._blocks: dict[tuple[str, bool], Block] = {}
        self._gone: set[str] = set()

    async def load(self, conversation: Conversation, run: Run, agent: AgentConfig) -> ShownFiles:
        """Load the files of the next call of the agent's model. Raises ModelFailure, DatabaseUnavailable."""
        groups = list_shown_files(conversation, run.trace_id)
        if not groups:
            return ShownFiles()
        return await self._load_groups(groups, find_model_inputs(agent.provider, run.model, agent.vision))

    async def _load_groups(self, groups: Sequence[Sequence[StoredFile]], inputs: ModelInputs) -> ShownFiles:
        files = [file for group in groups for file in group]
        try:
            await self._find_gone(file.file_id for file in files)
            native_groups = [[file for file in group if self._is_native(file, inputs)] for group in groups]
            native = [file for group in native_groups for file in group]
            hidden = count_hidden(native_groups)
            await asyncio.gather(*(self._load(file, is_native=True) for file in native[hidden:]))
            for file in files:
                if not self._is_native(file, inputs):
                    await self._load(file, is_native=False)
        except FilesUnavailable as error:
            raise ModelFailure("overloaded", _UNAVAILABLE, kind="files_unavailable") from error
        ids = frozenset(file.file_id for file in native)
        blocks = {file_id: block for (file_id, own), block in self._blocks.items() if own == (file_id in ids)}
        return ShownFiles(blocks, ids, hidden, frozenset(self._gone))

    async def _find_gone(self, file_ids: Iterable[str]) -> None:
        new = set(file_ids) - {file_id for file_id, _ in self._blocks}
        self._gone |= new - await self._store.find_stored(self._account_id, new)

    def _is_native(self, file: StoredFile, inputs: ModelInputs) -> bool:
        """Return True if the model gets the file's bytes."""
        if file.file_id in self._gone:
            return False
        if file.is_image:
            return inputs.images and file.bytes <= MAX_IMAGE_BYTES
        return inputs.pdfs and file.media_type == PDF and file.bytes <= MAX_PDF_BYTES

    async def _load(self, file: StoredFile, *, is_native: bool) -> None:
        if (file.file_id, is_native) in self._blocks:
            return
        try:
            block = await self._read(file) if is_native else _build_text_block(await self._describe(file))
        except FileGone:
            block = _build_text_block(_GONE.format(file.name))
        self._blocks[file.file_id, is_native] = block

    async def _read(self, file: StoredFile) -> Block:
        data = base64.b64encode(await self._store.read(self._account_id, file.sha256)).decode()
        source = {"type": "base64", "media_type": file.media_type, "data": data}
        if file.is_image:
            return {"type": "image", "source": source}
        return {"type": "document", "source": source, "title": file.name}

    async def _describe(self, file: StoredFile) -> str:
        if file.file_id in self._gone:
            return _GONE.format(file.name)
        if file.is_image:
            return (_TOO_LARGE if file.bytes > MAX_IMAGE_BYTES else _UNSEEN).format(file.name)
        return f"# {file.name}\n\n{await self._extract(file)}"

    async def _extract(self, file: StoredFile) -> str:
        account_id, sha256 = self._account_id, file.sha256
        stored = await self._store.read_text(account_id, sha256, TEXT_VERSION)
        if stored is not None:
            return stored
        content = await self._store.read(account_id, sha256)
        async with self._conversions.turn(account_id):
            text = await extract_text(content, file.media_type)
        await self._store.write_text(account_id, sha256, TEXT_VERSION, text)
        return text


def _build_text_block(text: str) -> Block:
    return {"type": "text", "text": text}
