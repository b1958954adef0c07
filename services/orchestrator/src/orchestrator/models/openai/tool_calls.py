"""The calls of a reply while their pieces come, in whatever order and however badly named."""

from typing import Any

import msgspec

from contracts.text import cleaned, cleaned_json
from orchestrator.models.openai.messages import PROVIDER
from orchestrator.models.openai.wire import WireToolCall
from orchestrator.models.tool_input import read_input

_OUR_ID = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


class ToolCalls:
    """Slots in the order of arrival.

    A piece belongs to the slot of its index, else of its id, else to the last one. One that names a function
    where the slot has a name already begins another call, unless it bears that call's id: Ollama and Gemini
    send several calls with one index.
    """

    def __init__(self) -> None:
        self._slots: list[_Slot] = []

    def __bool__(self) -> bool:
        return bool(self._slots)

    def take(self, piece: WireToolCall) -> None:
        slot = self._slot_of(piece)
        if slot is None or slot.is_another(piece):
            slot = _Slot(piece.index)
            self._slots.append(slot)
        slot.add(piece)

    def blocks(self) -> list[tuple[dict[str, Any], str]]:
        """Each call as a tool_use block, and what is wrong with its input. A missing id stays so."""
        seen: set[str] = set()
        made = []
        for slot in self._slots:
            call_id = slot.id if slot.id not in seen else ""
            seen.add(call_id)
            made.append(slot.whole(call_id))
        return made

    def _slot_of(self, piece: WireToolCall) -> "_Slot | None":
        newest_first = reversed(self._slots)
        if piece.index is not None:
            return next((slot for slot in newest_first if slot.index == piece.index), None)
        if piece.id:
            return next((slot for slot in newest_first if slot.id == piece.id), None)
        return next(newest_first, None)


class _Slot:
    """One call under construction."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self._name = ""
        self._arguments: list[str] = []
        self._extra: dict[str, Any] = {}

    def is_another(self, piece: WireToolCall) -> bool:
        """Whether the piece, for all its index says, is of a call that is not this one."""
        if piece.id and self.id:
            return piece.id != self.id
        return bool(self._name and piece.function and piece.function.name)

    def add(self, piece: WireToolCall) -> None:
        self.id = self.id or cleaned(piece.id or "")
        self._extra |= cleaned_json(piece.extra_content or {})
        if piece.function is not None:
            self._name = self._name or cleaned(piece.function.name or "")
            given = piece.function.arguments
            if given:
                self._arguments.append(
                    given if isinstance(given, str) else msgspec.json.encode(given).decode()
                )

    def whole(self, call_id: str) -> tuple[dict[str, Any], str]:
        given, problem = read_input("".join(self._arguments).strip())
        data: dict[str, Any] = {}
        if not _OUR_ID.issuperset(call_id):  # the log will not keep it; Kimi's models want it as it was
            data["id"] = call_id
        if self._extra:
            data["extra_content"] = self._extra
        block = {"type": "tool_use", "id": call_id, "name": self._name, "input": given}
        return block | {"provider_data": {PROVIDER: data}} if data else block, problem
