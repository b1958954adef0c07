"""Build the messages that the model sees, in the shape of Anthropic's Messages API.

Its rules (docs.claude.com, Messages API): roles alternate and the user begins; each tool_use block is
answered by a tool_result with its id at the head of the next message; no text block is blank.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.files import StoredFile
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.approval_rules import describe_missing_result
from agentchat.conversations.aggregate.attached_files import build_file_block
from agentchat.conversations.aggregate.compaction_rules import Compact, Opening, find_opening, find_run_index
from agentchat.conversations.aggregate.conversation import Conversation, Run
from agentchat.conversations.aggregate.rounds import Call, Round
from agentchat.runtime.bounded_map import BoundedMap

Block = dict[str, Any]
Message = dict[str, Any]
_Key = tuple[str, str, bool]

MAX_HISTORIES = 1000
MAX_BYTES = 32 * 1024 * 1024

_SUMMARISED = """\
The earlier part of this conversation is not shown. This is its summary:

<summary>
{}
</summary>"""
_BLANK = "(empty)"
_THINKING = frozenset({"thinking", "redacted_thinking"})


class Prompt(msgspec.Struct, frozen=True):
    """The messages of a model call.

    The first `earlier` content blocks of `messages` belong to earlier runs: calls of later runs begin with
    the same bytes. Messages and blocks may be cached for other prompts: never change them. `settled` are the
    first messages, which stay as they are.
    """

    messages: list[Message]
    earlier: int
    settled: "SettledMessages"


class History:
    """The opening and first runs of a conversation, as one provider's model sees them."""

    def __init__(self, opening: Opening, provider: str, *, tools_offered: bool) -> None:
        self.opening = opening
        self.runs: tuple[Run, ...] = ()
        self._provider = provider
        self._thread = _Thread(tools_offered)
        self._json = bytearray()
        self._ends: list[int] = []  # of messages in `_json`
        if isinstance(opening, events.ContextCompacted):
            _add_summary(self._thread, opening, provider)
        else:
            _add_seed(self._thread, opening)

    def extend(self, runs: tuple[Run, ...]) -> None:
        """Add the runs that are not in it; `runs` begins with those that are."""
        for run in runs[len(self.runs) :]:
            _add_run(self._thread, run, self._provider, current=False)
        self.runs = runs

    def matches(self, opening: Opening, runs: tuple[Run, ...]) -> bool:
        """Return True if it is of the opening and of the first of these runs.

        States of a conversation share the objects of ended runs. Comparing what equal ones hold would take
        as long as rendering them.
        """
        is_longer = len(self.runs) > len(runs)
        return not is_longer and self.opening is opening and all(map(operator.is_, self.runs, runs))

    def copy_thread(self) -> "_Thread":
        """Return a copy that can be added to."""
        return self._thread.copy()

    def mark_settled(self) -> "SettledMessages":
        """Return the messages that nothing joins any more: all but the last."""
        messages = self._thread.messages
        if not messages:
            return SettledMessages(self, 0, 0)
        return SettledMessages(self, len(messages) - 1, self._thread.blocks - len(messages[-1]["content"]))

    def encode_json(self, count: int, encode: Callable[[Message], bytes]) -> bytes:
        """Return what `encode` makes of the first `count` messages.

        See `SettledMessages.encode_json`.
        """
        for message in self._thread.messages[len(self._ends) : count]:
            self._json += encode(message) + b","
            self._ends.append(len(self._json))
        return bytes(memoryview(self._json)[: self._ends[count - 1] if count else 0])


class SettledMessages(msgspec.Struct, frozen=True):
    """The first `count` messages of a prompt, with `blocks` content blocks.

    Nothing joins them any more.
    """

    history: History
    count: int
    blocks: int

    def encode_json(self, encode: Callable[[Message], bytes]) -> bytes:
        """Return what `encode` makes of each message, followed by a comma.

        The result is cached for all prompts that begin with the same messages, so a provider has one
        `encode`.
        """
        return self.history.encode_json(self.count, encode)


class HistoryCache:
    """A cache of the histories used last, so that what a model has seen is not rendered again.

    It is bounded by their number and the bytes of their runs. To render 970 earlier messages takes 0.8 ms, to
    copy them from the cache 0.01 ms. A provider may cache the JSON of the messages with them
    (`SettledMessages.encode_json`), which is about as large as the runs.
    """

    def __init__(self, max_histories: int = MAX_HISTORIES, max_bytes: int = MAX_BYTES) -> None:
        self._kept: BoundedMap[_Key, History] = BoundedMap(max_histories, max_bytes)

    def load_history(
        self,
        runs: tuple[Run, ...],
        opening: Opening,
        conversation: Conversation,
        provider: str,
        *,
        tools_offered: bool,
    ) -> History:
        """Return the history of `runs` after `opening`, extended from the cached one if that fits."""
        key = (conversation.conversation_id, provider, tools_offered)
        # Removed first, so that a history whose rendering fails half way is not used again.
        size, history = self._kept.get_size(key), self._kept.pop(key)
        if history is None or not history.matches(opening, runs):
            history, size = History(opening, provider, tools_offered=tools_offered), 0
        size += sum(len(msgspec.json.encode(run)) for run in runs[len(history.runs) :])
        history.extend(runs)
        self._kept.put(key, history, size)
        return history


def build_prompt(
    conversation: Conversation,
    trace_id: str,
    *,
    tools_offered: bool,
    documents: str = "",
    provider: str = "anthropic",
    histories: HistoryCache | None = None,
    prefix_sha256: str | None = None,
) -> Prompt:
    """Build the messages of the next model call of a run.

    The seed, all earlier runs, and its own rounds. A summary replaces all runs that it covers.

    The last message is the user's, except after a reply that asked for no tool. Text of an interrupted round
    is kept for earlier runs; for this run the caller continues it. Thinking blocks are kept only for this run
    and for its present model of `provider`, whose signatures they carry; likewise a block's `provider_data`.
    If no tools are offered, earlier calls appear as text. `documents`, which were retrieved for this run,
    stand before its question, after everything of earlier runs, and in no later run, so they move nothing.

    With `histories`, cached earlier runs are not rendered again. With `prefix_sha256`, thinking is kept only
    of the last rounds whose replies followed that prefix: newer Claude models refuse a thinking block after
    another one (platform.claude.com, preserved thinking).
    """
    place = find_run_index(trace_id, conversation.runs)
    opening, first = find_opening(conversation, place)
    runs = conversation.runs[first:place]
    if histories is None:
        history = History(opening, provider, tools_offered=tools_offered)
        history.extend(runs)
    else:
        history = histories.load_history(runs, opening, conversation, provider, tools_offered=tools_offered)
    thread, settled = history.copy_thread(), history.mark_settled()
    earlier = thread.blocks
    if documents:
        thread.add_user(_build_text_block(documents))
    run = conversation.runs[place]
    _add_run(thread, run, provider, current=True, thinking_from=_find_bound_round(run, prefix_sha256))
    return Prompt(thread.messages, earlier, settled)


def build_round_messages(conversation: Conversation, run: Run, number: int) -> list[Message]:
    """Build the messages of the call for a round, without retrieved passages.

    What came after the round is left out.
    """
    asked = next((each for each in run.rounds if each.number == number), None)
    until = replace(run, rounds=tuple(each for each in run.rounds if each.number < number))
    if asked is not None and asked.model:
        until = replace(until, model=asked.model)
    shown = replace(conversation, runs=tuple(until if each is run else each for each in conversation.runs))
    return build_prompt(
        shown,
        run.trace_id,
        tools_offered=any(each.calls for each in run.rounds),
        provider="anthropic" if asked is None else asked.provider,
    ).messages


def build_summary_prompt(
    conversation: Conversation,
    trace_id: str,
    step: Compact,
    instruction: str,
    *,
    tools_offered: bool,
    provider: str = "anthropic",
) -> Prompt:
    """Build the messages that ask for a summary.

    They are those that the run's next call would begin with, and then `instruction`.
    """
    opening, first = find_opening(conversation, find_run_index(trace_id, conversation.runs))
    history = History(opening, provider, tools_offered=tools_offered)
    history.extend(conversation.runs[first : first + step.runs])
    thread = history.copy_thread()
    earlier = thread.blocks
    if instruction:
        thread.add_user(_build_text_block(instruction))
    return Prompt(thread.messages, earlier, history.mark_settled())


def _find_bound_round(run: Run, prefix_sha256: str | None) -> int:
    """Return the number of the first round from which on all replies followed this prefix; 0 for any."""
    if prefix_sha256 is None:
        return 0
    number = len(run.rounds) + 1
    for each in reversed(run.rounds):
        if each.blocks is not None and each.prefix_sha256 != prefix_sha256:
            break
        number = each.number
    return number


def _add_run(thread: "_Thread", run: Run, provider: str, *, current: bool, thinking_from: int = 0) -> None:
    _add_question(thread, run.user_text, run.attachments)
    for each in run.rounds:
        own = provider if each.model in (None, run.model) else ""
        _add_round(thread, each, own, current=current, thinks=each.number >= thinking_from)
        for message in each.joined:
            thread.add_user(_build_text_block(message.content))
    if run.reply is not None and not run.rounds:
        thread.add_assistant(_build_text_block(run.reply.content))


def _add_question(thread: "_Thread", text: str, files: Sequence[StoredFile]) -> None:
    """Add a user's message: its files, which models want before the text, then the text if it has one."""
    for file in files:
        thread.add_user(build_file_block(file))
    if text.strip() or not files:
        thread.add_user(_build_text_block(text))


def _add_summary(thread: "_Thread", compacted: events.ContextCompacted, provider: str) -> None:
    own = (compacted.provider_data or {}).get(provider)
    if own is None:
        thread.add_user(_build_text_block(_SUMMARISED.format(compacted.summary)))
    else:
        thread.add_assistant(own)


def _add_seed(thread: "_Thread", seed: tuple[ShownMessage, ...]) -> None:
    if seed and seed[0].role == "assistant":
        thread.add_user(_build_text_block(_BLANK))
    for message in seed:
        if message.role == "user":
            _add_question(thread, message.content, message.attachments)
        else:
            thread.add_assistant(_build_text_block(message.content))


def _add_round(thread: "_Thread", each: Round, provider: str, *, current: bool, thinks: bool) -> None:
    if each.blocks is None:
        if not current:
            thread.add_assistant(_build_text_block(each.text))
        return
    for block in each.blocks:
        if block.get("type") not in _THINKING or (current and thinks and each.provider == provider):
            thread.add_assistant(_keep_own_data(provider, block))
    returned = {call.call_id: call for call in each.calls}
    for block in each.blocks:
        if block.get("type") == "tool_use":
            call = returned.get(block["id"])
            if call is None or call.output is None:
                thread.add_result(block, describe_missing_result(call), is_error=True)
            else:
                shown = _build_result_text(call, call.output)
                thread.add_result(block, shown, call.files, is_error=call.is_error)


def _build_result_text(call: Call, output: str) -> str:
    """Return a result, with what the model does not know of the call."""
    if call.changed_input is None:
        return output
    ran_with = msgspec.json.encode(call.changed_input).decode()
    return f"A person changed the input of this call before it ran. It ran with {ran_with}.\n{output}"


def _keep_own_data(provider: str, block: Block) -> Block:
    """Return the block without the data of other providers."""
    if "provider_data" not in block:
        return block
    data = block["provider_data"].get(provider)
    rest = {name: value for name, value in block.items() if name != "provider_data"}
    return rest if data is None else rest | {"provider_data": {provider: data}}


class _Thread:
    """Messages under construction: a block whose role is that of the last message joins it."""

    def __init__(self, tools_offered: bool) -> None:
        self.messages: list[Message] = []
        self.blocks = 0
        self._tools_offered = tools_offered

    def copy(self) -> "_Thread":
        """Return a copy that can be added to: only the last message could grow."""
        copy = _Thread(self._tools_offered)
        copy.messages, copy.blocks = [*self.messages], self.blocks
        for last in copy.messages[-1:]:
            copy.messages[-1] = last | {"content": [*last["content"]]}
        return copy

    def add_user(self, block: Block) -> None:
        self._add("user", block if not _is_blank(block) else _build_text_block(_BLANK))

    def add_assistant(self, block: Block) -> None:
        if _is_blank(block):
            return
        if block.get("type") == "tool_use" and not self._tools_offered:
            arguments = msgspec.json.encode(block.get("input")).decode()
            block = _build_text_block(f"[Tool call {block['name']}: {arguments}]")
        self._add("assistant", block)

    def add_result(
        self, call: Block, output: str, files: Sequence[StoredFile] = (), *, is_error: bool
    ) -> None:
        blocks = [build_file_block(file) for file in files]
        if not self._tools_offered:
            kind = "error" if is_error else "result"
            for each in (_build_text_block(f"[Tool {kind} {call['name']}: {output}]"), *blocks):
                self._add("user", each)
            return
        content = [_build_text_block(output or "null"), *blocks] if blocks else output or "null"
        block: Block = {"type": "tool_result", "tool_use_id": call["id"], "content": content}
        self._add("user", block | {"is_error": True} if is_error else block)

    def _add(self, role: str, block: Block) -> None:
        self.blocks += 1
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"].append(block)
        else:
            self.messages.append({"role": role, "content": [block]})


def _build_text_block(text: str) -> Block:
    return {"type": "text", "text": text}


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()
