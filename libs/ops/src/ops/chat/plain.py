"""Without a terminal: messages in, replies out, as plain text or as one line of JSON each."""

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import IO

import msgspec

from agentchat_client import AgentChat, AgentChatError, AuthenticationFailed, Delta, Misconfigured, Reply
from agentchat_client.calls import Form
from ops.chat.safe import clean
from ops.chat.sentences import sentence
from ops.chat.target import Target


class Plain:
    """All messages belong to one thread. `failed` says whether something went wrong."""

    def __init__(self, target: Target, *, form: Form, as_json: bool, conversation_id: str | None) -> None:
        self._client = AgentChat(
            target.agent.api_key, base_url=target.base_url, agent_id=target.agent.agent_id
        )
        self._form = form
        self._as_json = as_json
        self._conversation_id = conversation_id
        self.failed = False

    def run(self, messages: Iterator[str]) -> None:
        """Answer each; after a failure go on, unless no other message can fare better."""
        with contextlib.closing(self._client):
            for message in messages:
                try:
                    self._answer(message)
                except (AuthenticationFailed, Misconfigured) as error:
                    self._fail(sentence(error))
                    return
                except AgentChatError as error:
                    self._conversation_id = self._conversation_id or getattr(error, "conversation_id", None)
                    self._fail(sentence(error))

    def _answer(self, message: str) -> None:
        if not self._as_json:
            self._stream(message)
            return
        reply = self._client.chat(message, self._conversation_id)
        self._conversation_id = reply.conversation_id
        _write(_json(reply) + "\n")

    def _stream(self, message: str) -> None:
        """Text as it comes. Ctrl-C ends the run too."""
        written = False
        with self._client.stream(message, self._conversation_id, form=self._form) as stream:
            try:
                for event in stream:
                    self._conversation_id = stream.conversation_id or self._conversation_id
                    if isinstance(event, Delta):
                        _write(clean(event.content))
                        written = True
            except BaseException as error:
                if written:
                    with contextlib.suppress(OSError):
                        _write("\n")
                if isinstance(error, (KeyboardInterrupt, BrokenPipeError)) and stream.trace_id:
                    with contextlib.suppress(AgentChatError):
                        self._client.cancel(stream.trace_id)
                raise
        _write("\n")

    def _fail(self, text: str) -> None:
        self.failed = True
        _complain(text)


def lines(file: IO[bytes]) -> Iterator[str]:
    """Each line that is not blank. Raises UnicodeDecodeError."""
    for number, line in enumerate(iter(file.readline, b""), 1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            error.add_note(f"line {number}")
            raise
        if text:
            yield text


def _json(reply: Reply) -> str:
    """Exactly what came; ASCII, so that it drives no terminal."""
    return json.dumps(msgspec.to_builtins(reply))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"agentchat: {text}\n")
    sys.stderr.flush()
