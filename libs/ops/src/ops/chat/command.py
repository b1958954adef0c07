"""What `agentchat chat` does with its options: a talk, one message, or one for each line of its input."""

import asyncio
import os
import sys

from agentchat_client import Misconfigured
from agentchat_client.calls import Form
from ops.chat import target as targets
from ops.chat.plain import Plain, lines
from ops.chat.target import Target
from ops.errors import SetupError, StackError
from ops.output import INTERRUPTED, forget_stdout


def chat(
    *,
    message: str | None,
    base_url: str | None,
    agent: str | None,
    conversation: str | None,
    form: int | None,
    as_json: bool,
) -> int:
    """The exit code. Raises StackError for what has to be set up differently."""
    target = targets.find(base_url, agent, os.environ)
    wished = _form(form)
    on_screen = sys.stdout.isatty() and not as_json
    try:
        if message is None and on_screen and sys.stdin.isatty():
            return _talk(target, wished, conversation)
        if message is not None and message != "-" and on_screen:
            return _one(target, wished, conversation, message)
        return _plain(target, wished, conversation, message, as_json=as_json)
    except Misconfigured as error:
        raise SetupError(str(error)) from None


def _talk(target: Target, form: Form | None, conversation: str | None) -> int:
    from ops.chat.session import Session
    from ops.chat.talk import talk

    asyncio.run(talk(Session(target, form, conversation), target))
    return 0


def _one(target: Target, form: Form | None, conversation: str | None, message: str) -> int:
    from ops.chat.session import Session
    from ops.chat.talk import one

    return asyncio.run(one(Session(target, form, conversation), message))


def _plain(
    target: Target, form: Form | None, conversation: str | None, message: str | None, *, as_json: bool
) -> int:
    plain = Plain(target, form=form or 1, as_json=as_json, conversation_id=conversation)
    try:
        match message:
            case None:
                plain.run(lines(sys.stdin.buffer))
            case "-":
                plain.run(iter([sys.stdin.buffer.read().decode().strip()]))
            case _:
                plain.run(iter([message]))
    except UnicodeDecodeError as error:
        where = f"{error.__notes__[0]} of the input" if hasattr(error, "__notes__") else "the input"
        raise StackError(f"{where} is not UTF-8") from None
    except BrokenPipeError:
        forget_stdout()
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return 1 if plain.failed else 0


def _form(form: int | None) -> Form | None:
    match form:
        case None:
            return None
        case 1 | 2:
            return 1 if form == 1 else 2
        case _:
            raise SetupError("--form is 1 or 2")
