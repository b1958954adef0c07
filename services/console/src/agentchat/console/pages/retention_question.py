"""Ask before a number of days is saved that deletes conversations at once."""

from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Response
from litestar.datastructures import FormMultiDict
from msgspec import UnsetType

from agentchat.administration.admin_retention import Retention
from agentchat.console.shared.access_check import AnyRequest
from agentchat.console.shared.confirmation import Question, ask
from agentchat.contracts.text_checks import format_count


async def ask_about_retention(
    request: AnyRequest,
    given: FormMultiDict,
    days: int | UnsetType | None,
    count: Callable[[int], Awaitable[Retention]],
) -> Response[Any] | None:
    """Return the page that asks if conversations are older than `days`, None if the person has confirmed."""
    if not isinstance(days, int) or not (found := (await count(days)).conversations):
        return None
    question = Question(
        title=f"Keep conversations for {format_count(days, 'day')}?",
        text=f"This deletes {format_count(found, 'conversation')} whose last message is older, with files "
        "and feedback. It cannot be undone.",
        button="Save and delete them",
        back=request.url.path,
    )
    return ask(request, given, question)
