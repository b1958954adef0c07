"""`agentchat replay show`."""

from typing import Annotated

import typer

from contracts.ids import is_uuid
from conversations.event_store.log import Log
from conversations.queries.time_travel import Past, parse_version_or_time, past_of
from ops.admin import show as printing
from ops.admin.options import AsJson
from ops.chat.safe import one_line
from ops.errors import SetupError
from ops.replay import drawing
from ops.replay.database import NoneSuchError, run


def show(
    conversation: Annotated[str, typer.Argument(metavar="CONVERSATION", help="A conversation's id.")],
    at: Annotated[
        str | None, typer.Option(metavar="VERSION|TIME", help="As it was then; a time is ISO 8601, UTC.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a conversation as it is, or as it was at a version or a time: its runs, rounds, tools, sources.

    Exit code 2: there is no such conversation, or it was never at that place.
    """
    past = _past(conversation, at)
    if as_json:
        printing.as_json({"head": past.head, "conversation": past.conversation})
    else:
        drawing.draw(printing.console(), past)


def _past(conversation: str, at: str | None) -> Past:
    """Raises SetupError, NoneSuchError."""
    conversation_id = conversation.lower()
    if not is_uuid(conversation_id):
        raise NoneSuchError(f"no such conversation: {one_line(conversation, 100)}")
    try:
        place = None if at is None else parse_version_or_time(at)
    except ValueError as error:
        raise SetupError(f"--at: {one_line(at or '', 60)!r} {error}") from None
    past = run(lambda _, pool: past_of(Log(pool), conversation_id, place))
    if past.head == 0:
        raise NoneSuchError(f"no such conversation: {conversation_id}")
    if past.conversation.erased:
        raise NoneSuchError(f"conversation {conversation_id} was erased at {past.entries[-1].event.at}")
    if isinstance(place, int) and place > past.head:
        raise NoneSuchError(f"conversation {conversation_id} is at version {past.head}, not {place} yet")
    if not past.entries:
        raise NoneSuchError(f"conversation {conversation_id} had not begun at {at}")
    return past
