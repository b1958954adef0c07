"""Build the item of one round's reasoning, and its events without their numbers. Pure."""

from msgspec.structs import replace

from agentchat.gateway.protocols.openai.responses import response_types

ReasoningEvent = tuple[str, dict[str, object]]


class ReasoningOutput:
    """The reasoning of one round: an item with one summary part, at `index` of the output."""

    def __init__(self, item_id: str, index: int) -> None:
        self.index = index
        self.item = response_types.ReasoningItem(id=item_id, status="in_progress")
        self._pieces: list[str] = []
        self._place = {"output_index": index, "item_id": item_id, "summary_index": 0}

    def begin(self) -> list[ReasoningEvent]:
        """Return the events that add the item and its part."""
        part = response_types.SummaryText(text="")
        return [
            ("response.output_item.added", {"output_index": self.index, "item": self.item}),
            ("response.reasoning_summary_part.added", {**self._place, "part": part}),
        ]

    def add(self, text: str) -> ReasoningEvent:
        """Add a piece of the summary and return its event."""
        self._pieces.append(text)
        return "response.reasoning_summary_text.delta", {**self._place, "delta": text}

    def end(self, status: str) -> list[ReasoningEvent]:
        """Complete the item and return the events that end it."""
        part = response_types.SummaryText(text="".join(self._pieces))
        self.item = replace(self.item, summary=(part,), status=status)
        return [
            ("response.reasoning_summary_text.done", {**self._place, "text": part.text}),
            ("response.reasoning_summary_part.done", {**self._place, "part": part}),
            ("response.output_item.done", {"output_index": self.index, "item": self.item}),
        ]
