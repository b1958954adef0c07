"""Tool calls that a person has to allow, asked about on a terminal: y, n, or another input."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from prompt_toolkit import PromptSession

from agentchat_client import Approval, AsyncAgentChat, InvalidRequest
from ops.chat.safe import compact, one_line
from ops.chat.screen import Screen
from ops.chat.sentences import sentence

_WIDTH = 2000
_QUESTION = "Run it? y, n, or e to edit its input: "


async def decide(client: AsyncAgentChat, approvals: Sequence[Approval], screen: Screen) -> bool:
    """Have each decided; False where that is left for later, by Ctrl-D. Raises AgentChatError."""
    ask: PromptSession[str] = PromptSession()
    for approval in approvals:
        name, given = one_line(approval.tool or approval.id, 64), compact(approval.input or {}, _WIDTH)
        screen.say(f"{name} {given} needs your word.")
        try:
            while not await _decided(client, approval, ask, screen):
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
    try:
        await client.decide(approval.id, decision, input=changed)
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
