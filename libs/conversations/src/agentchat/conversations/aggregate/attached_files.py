"""Show files in the messages of the model, and choose those of a long history that it still gets. Pure.

In neutral messages a file is one block, `{"type": "file", "file": StoredFile}`, in a user message or in the
content of a tool_result. The orchestrator replaces it by one block of the model.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from agentchat.contracts import events
from agentchat.contracts.files import StoredFile
from agentchat.contracts.values import ShownMessage
from agentchat.conversations.aggregate.compaction_rules import find_opening, find_run_index
from agentchat.conversations.aggregate.conversation import Conversation, Run

Block = dict[str, Any]
Message = dict[str, Any]

MOST_SHOWN = 20
"""The most images and documents in a model call: with more, Anthropic refuses images over 2,000 pixels."""

MOST_SHOWN_BYTES = 20 * 1024 * 1024
"""The most bytes of them, which are 27 MiB in base64; Anthropic takes 32 MiB in a request."""

_NAMED = 100


def build_file_block(file: StoredFile) -> Block:
    """Build the neutral block of a file."""
    return {"type": "file", "file": file}


def list_shown_files(conversation: Conversation, trace_id: str) -> list[tuple[StoredFile, ...]]:
    """List the files in the messages of a run's next model call, oldest first.

    Each user message and each tool result with files has an entry.
    """
    place = find_run_index(trace_id, conversation.runs)
    opening, first = find_opening(conversation, place)
    seed = () if isinstance(opening, events.ContextCompacted) else opening
    return [*_iterate_files(seed, conversation.runs[first : place + 1])]


def _iterate_files(seed: Iterable[ShownMessage], runs: Iterable[Run]) -> Iterator[tuple[StoredFile, ...]]:
    yield from filter(None, (message.attachments for message in seed))
    for run in runs:
        calls = (call for each in run.rounds for call in each.calls)
        yield from filter(None, (run.attachments, *(call.files for call in calls)))


def count_hidden(groups: Sequence[Sequence[StoredFile]]) -> int:
    """Count the oldest of these images and documents that no call shows any more.

    When a message exceeds a limit, earlier ones are hidden down to half of it, so that the beginning of the
    prompt, which the provider caches, changes rarely. What is hidden stays so.
    """
    hidden, sizes = 0, list[int]()
    for group in groups:
        sizes += [file.bytes for file in group]
        own = len(sizes) - len(group)  # the first file of this group
        if _exceeds(sizes[hidden:], 1):
            while hidden < own and _exceeds(sizes[hidden:], 2):
                hidden += 1
        while _exceeds(sizes[hidden:], 1):
            hidden += 1
    return hidden


def _exceeds(sizes: Sequence[int], part: int) -> bool:
    return len(sizes) > MOST_SHOWN // part or sum(sizes) > MOST_SHOWN_BYTES // part


def replace_files(messages: list[Message], render: Callable[[StoredFile], Block]) -> list[Message]:
    """Return the messages with `render` of each file in its place. Messages without files stay the same."""
    return [
        message | {"content": [_replace(block, render) for block in message["content"]]}
        if any(_has_file(block) for block in message["content"])
        else message
        for message in messages
    ]


def _has_file(block: Block) -> bool:
    return block["type"] == "file" or (
        block["type"] == "tool_result" and not isinstance(block["content"], str)
    )


def _replace(block: Block, render: Callable[[StoredFile], Block]) -> Block:
    match block:
        case {"type": "file", "file": StoredFile() as file}:
            return render(file)
        case {"type": "tool_result", "content": list() as content}:
            return block | {"content": [_replace(each, render) for each in content]}
        case _:
            return block


def name_files(seed: Iterable[ShownMessage], runs: Iterable[Run]) -> str:
    """Return a sentence that names the files of these messages, "" without any; for a summary of them."""
    names = list(dict.fromkeys(file.name for group in _iterate_files(seed, runs) for file in group))
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Files that are not shown any more: {', '.join(names[-_NAMED:])}{more}."
