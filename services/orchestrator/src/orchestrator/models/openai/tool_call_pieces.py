"""The calls of a reply while their pieces come, in whatever order and however badly named."""

from collections.abc import Iterator
from typing import Any

import msgspec

from contracts.text import cleaned, cleaned_json, short_line
from orchestrator.models.openai.request_messages import PROVIDER
from orchestrator.models.openai.wire import WireToolCall
from orchestrator.models.provider_sse import StreamBroken
from orchestrator.models.reply_builder import MAX_BLOCKS, Content, read_input

_ID_CHARS = 200
_OUR_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class ToolCalls:
    """Slots in the order of arrival.

    A piece belongs to the slot of its index, else of its id, else to the last one. Some servers say the id
    and the name again with every piece; Ollama and Gemini send several calls with one index, each in one
    piece, so one that names a function may begin another call.
    """

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def take(self, piece: WireToolCall) -> None:
        """Raises StreamBroken for more calls than a model makes."""
        slot = self._slot_of(piece)
        if slot is None or slot.is_another(piece):
            if len(self._slots) >= MAX_BLOCKS:
                raise StreamBroken("calls without an end")
            slot = _Slot(piece.index)
            self._slots.append(slot)
        slot.add(piece)

    def blocks(self, *, cut: bool) -> Iterator[Content]:
        """Each call as a tool_use block. A missing id stays so."""
        seen: set[str] = set()
        for slot in self._slots:
            call_id = slot.id if slot.id not in seen else ""
            seen.add(call_id)
            yield slot.content(call_id, cut)

    def _slot_of(self, piece: WireToolCall) -> "_Slot | None":
        piece_id = _id_of(piece)
        slots = [slot for slot in reversed(self._slots) if piece.index in (None, slot.index)]
        named = next((slot for slot in slots if piece_id and slot.id == piece_id), None)
        if named is not None or (piece_id and piece.index is None):
            return named
        return slots[0] if slots else None


class _Slot:
    """One call under construction."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []
        self._extra: dict[str, Any] = {}

    def is_another(self, piece: WireToolCall) -> bool:
        """Whether the piece, for all its index says, is of a call that is not this one.

        It names a function then: old versions of vLLM make up an id for every piece.
        """
        function, piece_id = piece.function, _id_of(piece)
        if function is None or not function.name or not self._name:
            return False
        if piece_id and self.id:
            return piece_id != self.id
        return cleaned(function.name) != self._name or bool(function.arguments and self._came_whole())

    def _came_whole(self) -> bool:
        """Whether all the arguments were in one piece."""
        return len(self._arguments) == 1 and not read_input(self._arguments[0])[1]

    def add(self, piece: WireToolCall) -> None:
        self.id = self.id or _id_of(piece)
        self._extra |= cleaned_json(piece.extra_content or {})
        if piece.function is not None:
            self._name = self._name or cleaned(piece.function.name or "")
            given = piece.function.arguments
            if given is not None and given != "":
                is_object = not isinstance(given, str)
                self._arguments.append(
                    msgspec.json.encode(cleaned_json(given)).decode() if is_object else given
                )

    def content(self, call_id: str, cut: bool) -> Content:
        given, problem = read_input("".join(self._arguments).strip(), cut=cut)
        data: dict[str, Any] = {}
        if not _OUR_ID.issuperset(call_id):  # the log will not keep it; Kimi's models want it as it was
            data["id"] = call_id
        if self._extra:
            data["extra_content"] = self._extra
        block = {"type": "tool_use", "id": call_id, "name": self._name, "input": given}
        return block | {"provider_data": {PROVIDER: data}} if data else block, problem


def _id_of(piece: WireToolCall) -> str:
    return short_line(piece.id or "", _ID_CHARS)
