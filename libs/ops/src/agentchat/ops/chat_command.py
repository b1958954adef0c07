"""`agentchat chat`: talk to an agent from a terminal or a pipe, by the service's Python client."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any, Literal

import msgspec
from rich.console import Console
from rich.text import Text

from agentchat.client import (
    AgentChat,
    AgentChatError,
    Approval,
    AuthenticationFailed,
    ChatError,
    ChatStream,
    Delta,
    Elicitation,
    Misconfigured,
    PlanUpgradeRequired,
    Sources,
    ToolCall,
)
from agentchat.contracts.text_checks import convert_to_utf8, is_wide
from agentchat.ops import demo_env
from agentchat.ops.demo_env import get_variable
from agentchat.ops.errors import SetupError, StackError
from agentchat.ops.terminal_text import INTERRUPTED, clean, discard_stdout, format_fields, shorten

BASE_URL = "AGENTCHAT_BASE_URL"
API_KEY = "AGENTCHAT_API_KEY"
AGENT_ID = "AGENTCHAT_AGENT_ID"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SHOWN_INPUT = 2000

Form = Literal[1, 2]
Decision = Literal["approved", "denied"]


def chat(
    *,
    message: str | None,
    base_url: str | None,
    agent: str | None,
    conversation: str | None,
    form: Form | None,
    as_json: bool,
) -> int:
    """Send the message, or each line of standard input, in one conversation. Return the exit code.

    Raises:
        StackError: The key was refused, or the settings are wrong.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and not as_json
    address, agent_id, api_key = find_agent(base_url, agent)
    retries = 0 if is_terminal else 2
    try:
        with AgentChat(api_key, base_url=address, agent_id=agent_id, max_retries=retries) as client:
            session = _Session(client, conversation, form or (2 if is_terminal else 1), as_json=as_json)
            failed = False
            for text in _read_typed_lines() if is_terminal and message is None else _read_messages(message):
                failed = not session.answer(text, can_ask=is_terminal) or failed
            return 1 if failed else 0
    except Misconfigured as error:
        raise SetupError(str(error)) from None
    except AuthenticationFailed as error:
        raise StackError(shorten(str(error), 600)) from None
    except BrokenPipeError:
        discard_stdout()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED


def find_agent(base_url: str | None, agent: str | None) -> tuple[str, str, str]:
    """Return the service's address, the agent's id and a key.

    The options name them, else the environment, else the running stack.

    A key comes only from the environment, since arguments show in the list of processes. The running
    stack's key is never sent to another address.

    Raises:
        SetupError, NotRunningError
    """
    address = base_url or get_variable(os.environ, BASE_URL)
    api_key = get_variable(os.environ, API_KEY)
    wanted = agent or get_variable(os.environ, AGENT_ID)
    known: dict[str, tuple[str, str]] = {}
    if address is None:
        stack = demo_env.load(elsewhere=f"; for another service set {BASE_URL} and {API_KEY}")
        address = stack.base_url
        known = {
            "shop": (stack.agent_id, stack.api_key),
            "policies": (stack.retrieval_agent_id, stack.api_key),
            "openai": (stack.openai_agent_id, stack.api_key),
            "starter": (stack.starter_agent_id, stack.starter_api_key),
            "load": (stack.load_agent_id, stack.load_api_key),
        }
        api_key = api_key or stack.api_key
        wanted = wanted or "shop"
    if api_key is None:
        raise SetupError(f"set {API_KEY} to a key of the service at {address}")
    if wanted is None:
        raise SetupError(f"no agent chosen: give --agent or set {AGENT_ID}")
    if wanted in known:
        agent_id, api_key = known[wanted]
    elif _UUID.fullmatch(wanted):
        agent_id = wanted.lower()
        api_key = next((key for demo_id, key in known.values() if demo_id == agent_id), api_key)
    else:
        names = f", or one of {', '.join(known)}" if known else ""
        raise SetupError(f"unknown agent {wanted!r}: give its id{names}")
    return address, agent_id, api_key


def _read_typed_lines() -> Iterator[str]:
    """Yield what a person types until Ctrl-D. Ctrl-C clears the line."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - gives `input` editing and a history
    while True:
        try:
            if text := input("> ").strip():
                yield text
        except KeyboardInterrupt:
            print()
        except EOFError:
            print()
            return


def _read_messages(message: str | None) -> Iterator[str]:
    """Yield the message of the option; without one, each line of standard input; for `-`, all of it."""
    if message not in (None, "-"):
        yield str(message)
        return
    pieces = iter(sys.stdin.buffer.read if message else sys.stdin.buffer.readline, b"")
    for number, piece in enumerate(pieces, 1):
        try:
            if is_wide(piece):  # its lines do not end with the byte of a line end
                text = convert_to_utf8(piece + sys.stdin.buffer.read()).decode()
            else:
                text = convert_to_utf8(piece).decode()
        except UnicodeDecodeError:
            raise StackError(f"line {number} of the input is not UTF-8") from None
        yield from filter(None, map(str.strip, [text] if message else text.splitlines()))


class _Session:
    """A conversation: its id once it is known, and the stream form."""

    def __init__(self, client: AgentChat, conversation_id: str | None, form: Form, *, as_json: bool) -> None:
        self._client = client
        self._conversation_id = conversation_id
        self._form = form
        self._as_json = as_json
        self._screen = Console(highlight=False, markup=False, emoji=False)
        self._shown_characters = 0
        self._shown_calls = 0

    def answer(self, message: str, *, can_ask: bool) -> bool:
        """Send the message and write the reply. Return False after a failure, which is one line on stderr.

        Raises:
            AuthenticationFailed, Misconfigured: Every other message would fail too.
        """
        try:
            self._write_json(message) if self._as_json else self._write_text(message, can_ask=can_ask)
        except (AuthenticationFailed, Misconfigured):
            raise
        except AgentChatError as error:
            self._conversation_id = self._conversation_id or getattr(error, "conversation_id", None)
            sys.stderr.write(f"agentchat: {shorten(str(error), 600)}\n")
            return False
        except (EOFError, KeyboardInterrupt):  # the person stopped the reply, or postponed an approval
            if not can_ask:
                raise
            return False
        return True

    def _write_json(self, message: str) -> None:
        """Write the complete reply as a line of JSON, in ASCII so that it cannot control a terminal."""
        reply = self._client.chat(message, self._conversation_id)
        self._conversation_id = reply.conversation_id
        _write(json.dumps(msgspec.to_builtins(reply)) + "\n")

    def _write_text(self, message: str, *, can_ask: bool) -> None:
        """Stream the reply, asking for each approval that it needs."""
        self._shown_characters = self._shown_calls = 0
        stream = self._client.stream(message, self._conversation_id, form=self._form)
        complete = False
        while not complete:
            try:
                self._follow(stream)
                complete = True
            except PlanUpgradeRequired:
                if self._form == 1 or not can_ask:
                    raise
                self._print_note("Your plan does not include form 2 (tool calls); continuing with form 1.")
                self._form = 1
                stream = self._client.stream(message, self._conversation_id, form=1)
            except ChatError as error:
                if not (can_ask and error.approvals and error.trace_id):
                    raise
                for approval in error.approvals:
                    self._decide(approval)
                stream = self._client.events(error.trace_id, form=self._form)

    def _follow(self, stream: ChatStream) -> None:
        """Write the text and the tool calls that are not shown yet. Ctrl-C cancels the run.

        After an approval the stream begins again, so what was shown is skipped.
        """
        characters = calls = 0
        try:
            with stream:
                for event in stream:
                    self._conversation_id = stream.conversation_id or self._conversation_id
                    match event:
                        case Delta():
                            _write(clean(event.content[max(0, self._shown_characters - characters) :]))
                            characters += len(event.content)
                            self._shown_characters = max(characters, self._shown_characters)
                        case ToolCall() if self._screen.is_terminal:
                            calls += 1
                            if calls > self._shown_calls:
                                called = f"{shorten(event.name, 64)} {format_fields(event.input, 200)}"
                                self._print_note(f"⚙ {called}")
                            self._shown_calls = max(calls, self._shown_calls)
                        case Sources() if self._screen.is_terminal:
                            for each in event.sources:
                                self._print_note(f"[{each.index}] {shorten(each.title or each.id, 200)}")
        except BaseException as error:
            if self._shown_characters:
                with contextlib.suppress(OSError):
                    _write("\n")
            if isinstance(error, KeyboardInterrupt | OSError) and stream.trace_id:
                with contextlib.suppress(AgentChatError):
                    self._client.cancel(stream.trace_id)
            raise
        _write("\n")

    def _decide(self, approval: Approval) -> None:
        """Ask for a decision until the service accepts it."""
        question, values = "needs your approval. Run it?", None
        if (asked := approval.elicitation) is not None:
            link = f" It asks you to open {clean(asked.url)}" if asked.url else ""
            question = f"asks: {shorten(asked.message, _SHOWN_INPUT)}{link} Answer it?"
        given = format_fields(approval.input or {}, _SHOWN_INPUT)
        tool = f"{shorten(approval.tool or approval.id, 64)} {given}"
        while True:
            answer = input(f"{tool} {question} y or n: ").strip().lower()
            if answer not in ("y", "yes", "n", "no"):
                continue
            decision: Decision = "approved" if answer in ("y", "yes") else "denied"
            if decision == "approved" and asked is not None and asked.mode != "url":
                values = _read_form(asked)
            try:
                self._client.decide(approval.id, decision, input=values)
            except AgentChatError as error:
                self._print_note(shorten(str(error), 600))
                if getattr(error, "status", None) != 400:
                    raise
            else:
                return

    def _print_note(self, text: str) -> None:
        if self._shown_characters:
            _write("\n")
        self._screen.print(Text(clean(text), "dim"))


def _read_form(asked: Elicitation) -> dict[str, Any]:
    """Ask for each value. An empty answer leaves it out; JSON is read as such unless a text is wanted."""
    values: dict[str, Any] = {}
    properties: dict[str, Any] = (asked.requested_schema or {}).get("properties", {})
    for name, schema in properties.items():
        typed = input(f"{shorten(str(schema.get('title', name)), 200)}: ").strip()
        if not typed:
            continue
        values[name] = typed
        if schema.get("type") != "string":
            with contextlib.suppress(ValueError):
                values[name] = json.loads(typed)
    return values


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
