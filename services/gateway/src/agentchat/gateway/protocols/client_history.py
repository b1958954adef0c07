"""Find the conversation of a client that keeps the history itself and sends all of it, the last message new.

It is found by the client's own name for it together with the texts that are sent (decision 35).
"""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from agentchat.contracts import ids
from agentchat.contracts.ownership import may_use
from agentchat.contracts.values import Role, ShownMessage
from agentchat.conversations.queries import find_by_history
from agentchat.conversations.queries.find_by_history import (
    ContinuedConversation,
    Digests,
    compute_digests,
    find_place,
)
from agentchat.conversations.queries.read_thread import Thread, find_thread
from agentchat.directory.api_keys import Caller
from agentchat.gateway.attachments.requested_attachment import RequestedAttachment, check_count
from agentchat.gateway.http.problems import build_field_refusal, check_size, replace_nul
from agentchat.gateway.http.request_context import MAX_BODY_BYTES, JsonRequest
from agentchat.gateway.protocols.chat import MAX_MESSAGE_BYTES, MAX_PROMPT_BYTES
from agentchat.gateway.runs.run_request import Fork, RunRequest
from agentchat.runtime.postgres import Pool

_NO_NAME = re.compile(r"(undefined|null|none|nan)\Z|\[object|.*(\{\{|\$\{)", re.IGNORECASE)
MAX_NAME = 255


class ClientHistory(msgspec.Struct, frozen=True):
    """A conversation as a client sends it, its last message new; `instructions` follow the agent's prompt."""

    instructions: str | None
    messages: tuple[ShownMessage, ...]
    digests: Digests
    attachments: tuple[RequestedAttachment, ...] = ()

    @property
    def message(self) -> str:
        """Return the new message."""
        return self.messages[-1].content

    @property
    def history(self) -> tuple[ShownMessage, ...]:
        """Return the messages before the new one."""
        return self.messages[:-1]


class MessageBuilder:
    """Collects the texts of a client's messages. Consecutive ones of the assistant are joined."""

    def __init__(self) -> None:
        self._instructions: list[str] = []
        self._messages: list[tuple[Role, list[str]]] = []
        self._attachments: list[tuple[RequestedAttachment, ...]] = []  # of each message
        self._last: Role | None = None

    def add_system(self, text: str) -> None:
        """Add a system message, or what counts as one."""
        self._instructions.append(text)

    def add_user(self, text: str, attachments: Sequence[RequestedAttachment] = ()) -> None:
        """Add a message of the user. Raises Refusal, 400, if it has too many files."""
        check_count(attachments)
        self._last = "user"
        self._messages.append(("user", [text]))
        self._attachments.append(tuple(attachments))

    def add_assistant(self, text: str) -> None:
        """Add a message of the assistant; "" if it only called tools."""
        self._last = "assistant"
        if self._messages and self._messages[-1][0] == "assistant":
            self._messages[-1][1].append(text)
        elif text:
            self._messages.append(("assistant", [text]))
            self._attachments.append(())

    def build_history(self, field: str, max_bytes: int = MAX_MESSAGE_BYTES) -> ClientHistory:
        """Build the history. `max_bytes` bounds a user's message. Raises Refusal, which names `field`."""
        if self._last != "user":
            raise build_field_refusal(field, 'The last message must have role "user".')
        messages = tuple(ShownMessage(role, replace_nul("".join(texts))) for role, texts in self._messages)
        if not messages[-1].content.strip() and not self._attachments[-1]:
            raise build_field_refusal(field, "The last message is blank.")
        for each in messages:
            check_size(field, each.content, max_bytes if each.role == "user" else MAX_MESSAGE_BYTES)
        instructions = replace_nul("\n\n".join(filter(None, self._instructions)))
        check_size(field, instructions, MAX_PROMPT_BYTES)
        check_size(field, "".join(each.content for each in messages), MAX_BODY_BYTES)
        digests = compute_digests(list(map(_mark_files, messages, self._attachments)))
        attachments = [
            replace(each, message=index) for index, files in enumerate(self._attachments) for each in files
        ]
        return ClientHistory(instructions or None, messages, digests, tuple(attachments))


def _mark_files(message: ShownMessage, files: Sequence[RequestedAttachment]) -> ShownMessage:
    """Return a message whose hash tells its files too: no text has a NUL."""
    return replace(message, content="\0".join((message.content.strip(), *(each.mark for each in files))))


def check_name(field: str, name: str) -> str:
    """Check the client's own name for a conversation. Raises Refusal: 400.

    A placeholder such as "undefined" would be one conversation for all users.
    """
    if not name.strip() or len(name) > MAX_NAME:
        raise build_field_refusal(field, f"This has 1 to {MAX_NAME} characters, and not only blanks.")
    if _NO_NAME.match(name):
        raise build_field_refusal(
            field, f"`{name}` looks like a missing value; send a real conversation name."
        )
    return replace_nul(name)


async def place_in_conversation(
    request: JsonRequest,
    requested: RunRequest,
    shown: ClientHistory,
    key: str | None,
    hash_of: Callable[[str], str] | None,
) -> RunRequest:
    """Place a request in the conversation that ends with the texts shown, in a fork of it, or in a new one.

    `key` is the client's own name for the conversation, its `external_id`, or our id; without one it is new.
    `hash_of` turns a digest of texts into the hash that is stored. A conversation that has continued since is
    forked.

    Raises DatabaseUnavailable, UnreadableEvent.
    """
    requested = replace(
        requested,
        message=shown.message,
        attachments=take_new_files(shown.attachments, len(shown.history)),
        history=shown.history,
        instructions=shown.instructions,
        shown_sha256=hash_of and hash_of(shown.digests.messages),
    )
    if key is None or hash_of is None:
        return requested
    pool = request.services.pool
    thread = await _find_thread(pool, request.auth, key)
    if thread is None:
        requested = replace(requested, external_id=key)
    else:
        if not shown.history:
            return replace(requested, conversation_id=thread.conversation_id)
        if continued := await find_place(pool, thread, shown.history):
            return _continue_conversation(requested, continued)
    before, reply = shown.digests.before, shown.digests.reply
    if before is None:
        return requested
    continued = await find_by_history.find_continued(pool, hash_of(before), reply, shown.message)
    return requested if continued is None else _continue_conversation(requested, continued)


def take_new_files(attachments: Sequence[RequestedAttachment], first: int) -> tuple[RequestedAttachment, ...]:
    """Return the files; those of messages from the index `first` on are the new message's."""
    return tuple(
        replace(each, message=None) if (each.message or 0) >= first else each for each in attachments
    )


def _continue_conversation(requested: RunRequest, continued: ContinuedConversation) -> RunRequest:
    if continued.has_gone_on and continued.reply_id is not None:
        place = Fork(source_id=continued.conversation_id, at=continued.reply_id, trace_id=continued.trace_id)
        return replace(requested, fork=place)
    return replace(requested, conversation_id=continued.conversation_id, after=continued.reply_id, history=())


async def _find_thread(pool: Pool, caller: Caller, key: str) -> Thread | None:
    """Find the caller's conversation with this id; None for any other name."""
    conversation_id = key.lower()
    if not ids.is_conversation_id(conversation_id):
        return None
    thread = await find_thread(pool, conversation_id)
    return None if thread is None or not may_use(caller, thread) else thread
