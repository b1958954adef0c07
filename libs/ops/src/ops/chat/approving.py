"""What a run waits for, asked on a terminal: whether a tool may run, or what it asks for."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from prompt_toolkit import PromptSession

from agentchat_client import Approval, AsyncAgentChat, InvalidRequest
from ops.chat.answering import read_form, show_link
from ops.chat.safe import compact, one_line
from ops.chat.screen import Screen
from ops.chat.sentences import sentence

_WIDTH = 2000
_QUESTION = "Run it? y, n, or e to edit its input: "
_ANSWER = "Answer it? y or n: "
_OPENED = "Do you open it? y or n: "


async def decide(client: AsyncAgentChat, approvals: Sequence[Approval], screen: Screen) -> bool:
    """Have each decided; False where that is left for later, by Ctrl-D. Raises AgentChatError."""
    ask: PromptSession[str] = PromptSession()
    for approval in approvals:
        name, given = one_line(approval.tool or approval.id, 64), compact(approval.input or {}, _WIDTH)
        asked = approval.elicitation
        if asked is None:
            screen.say(f"{name} {given} needs your word.")
        else:
            screen.say(f"{name} {given} asks: {one_line(asked.message, _WIDTH)}")
        decided = _decided if asked is None else _answered
        try:
            while not await decided(client, approval, ask, screen):
                pass
        except (EOFError, KeyboardInterrupt):
            return False
    return True


async def _decided(
    client: AsyncAgentChat, approval: Approval, ask: "PromptSession[str]", screen: Screen
) -> bool:
    answer = (await ask.prompt_async(_QUESTION)).strip().lower()
    decision: Literal["approved", "denied"] = "denied" if answer in ("n", "no") else "approved"
    changed = None
    if answer in ("e", "edit"):
        changed = _read(await ask.prompt_async("input: ", default=json.dumps(approval.input)))
        if changed is None:
            screen.fail("That is no JSON object.")
            return False
    elif answer not in ("y", "yes", "n", "no"):
        return False
    return await _taken(client, approval, decision, changed, screen)


async def _answered(
    client: AsyncAgentChat, approval: Approval, ask: "PromptSession[str]", screen: Screen
) -> bool:
    asked = approval.elicitation
    assert asked is not None
    if asked.mode == "url":
        show_link(asked, screen)
    question = _OPENED if asked.mode == "url" else _ANSWER
    answer = (await ask.prompt_async(question)).strip().lower()
    if answer in ("n", "no"):
        return await _taken(client, approval, "denied", None, screen)
    if answer not in ("y", "yes"):
        return False
    given = None if asked.mode == "url" else await read_form(asked, ask, screen)
    return await _taken(client, approval, "approved", given, screen)


async def _taken(
    client: AsyncAgentChat,
    approval: Approval,
    decision: Literal["approved", "denied"],
    given: dict[str, Any] | None,
    screen: Screen,
) -> bool:
    """Whether the service has taken it: what does not fit is said, and asked again."""
    try:
        await client.decide(approval.id, decision, input=given)
    except InvalidRequest as error:
        if error.status != 400:
            raise
        screen.fail(sentence(error))
        return False
    return True


def _read(text: str) -> dict[str, Any] | None:
    try:
        given = json.loads(text)
    except ValueError:
        return None
    return given if isinstance(given, dict) else None
