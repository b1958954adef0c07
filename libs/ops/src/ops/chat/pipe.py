"""Replies without a terminal: streamed as plain text, or as one line of JSON each."""

import contextlib
import json
import sys

import msgspec

from agentchat_client import AgentChatError, AuthenticationFailed, Delta, Misconfigured
from ops.chat.chat_session import Session
from ops.errors import StackError
from ops.output import clean, one_line


class Pipe:
    """All messages belong to one thread."""

    def __init__(self, session: Session, *, as_json: bool) -> None:
        self._session = session
        self._as_json = as_json

    async def answer(self, message: str) -> bool:
        """Whether it succeeded. Raises StackError, Misconfigured where every other message would fail too."""
        try:
            await (self._json(message) if self._as_json else self._text(message))
        except AuthenticationFailed as error:
            raise StackError(one_line(str(error), 600)) from None
        except Misconfigured:
            raise
        except AgentChatError as error:
            session = self._session
            session.conversation_id = session.conversation_id or getattr(error, "conversation_id", None)
            sys.stderr.write(f"agentchat: {one_line(str(error), 600)}\n")
            sys.stderr.flush()
            return False
        return True

    async def _json(self, message: str) -> None:
        """The reply as it was received; in ASCII, so that it cannot control a terminal."""
        session = self._session
        reply = await session.client.chat(message, session.conversation_id, agent_id=session.agent.agent_id)
        session.conversation_id = reply.conversation_id
        _write(json.dumps(msgspec.to_builtins(reply)) + "\n")

    async def _text(self, message: str) -> None:
        """Streamed text. Ctrl-C and a closed pipe also cancel the run."""
        session, written = self._session, False
        stream = session.client.stream(
            message, session.conversation_id, agent_id=session.agent.agent_id, form=session.form
        )
        async with stream:
            try:
                async for event in stream:
                    session.conversation_id = stream.conversation_id or session.conversation_id
                    if isinstance(event, Delta):
                        _write(clean(event.content))
                        written = True
            except BaseException as error:
                if written:
                    with contextlib.suppress(OSError):
                        _write("\n")
                if not isinstance(error, AgentChatError) and stream.trace_id:
                    with contextlib.suppress(AgentChatError):
                        await session.client.cancel(stream.trace_id)
                raise
        _write("\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
