"""GET /v1/chat/{trace_id}/events: a stream joined, read again, or gone on with, at whichever gateway.

An extension beside the specification's POST, whose streams stay without ids (docs/decisions/0017).
"""

import asyncio

from contracts import marks, sse
from contracts.timings import ACCEPT_SECONDS
from contracts.updates import Broken
from conversations.finding import Found
from directory.caller import Caller
from gateway import query, strict
from gateway.admission import reader_of
from gateway.exchange import Exchange
from gateway.forms import check_plan, default_form, form_of
from gateway.launch import TURN_SECONDS, wait_for, watched
from gateway.owned import no_such_run, run_of
from gateway.parts import Parts
from gateway.problems import Refusal, invalid
from gateway.stories import Reader
from gateway.stream import EventStream

CURSOR_HEADER = "Last-Event-ID"


async def events(parts: Parts, exchange: Exchange, trace_id: str) -> None:
    """The run's events, each with the id of the place behind it, from its beginning or from behind a cursor.

    404 for what is not the account's, is unknown or erased; 410 for a cursor that is no place in this run.
    """
    caller = await reader_of(parts, exchange)
    await strict.discard(exchange)
    parts.runs.check()
    asked = form_of(exchange)
    check_plan(asked, caller)
    cursor = _cursor(exchange)
    found = await run_of(parts, caller, trace_id)
    mark = None
    if cursor and (mark := marks.parse_cursor(cursor, trace_id)) is None:
        raise _expired()
    begun_at = found.begun_at
    async with (
        parts.shares.streaming(caller),
        parts.stories.read(
            trace_id,
            found.conversation_id,
            mark=mark,
            after_version=0 if begun_at is None else begun_at - 1,
        ) as reader,
        watched(exchange, reader),
    ):
        await _begun(reader, ACCEPT_SECONDS if begun_at else TURN_SECONDS)
        if reader.is_lost:
            raise _expired()
        form = asked or await _first_form(parts, caller, trace_id, found)
        check_plan(form, caller)
        exchange.answer_as(trace_id)
        await _serve(exchange, reader, form, sse.Encoder(form, found.conversation_id, trace_id))


async def _serve(exchange: Exchange, reader: Reader, form: sse.Form, encoder: sse.Encoder) -> None:
    def take() -> bytes:
        return b"".join(entry.data(form, encoder) for entry in reader.take())

    await EventStream(exchange, reader, take).serve()


async def _first_form(parts: Parts, caller: Caller, trace_id: str, found: Found) -> sse.Form:
    """That of the request that began the run; the deployment's where that asked for no stream of ours."""
    if found.form is None:  # it stood in line
        found = await run_of(parts, caller, trace_id)
    return next((form for form in sse.FORMS if form == found.form), default_form(parts.stream_form))


async def _begun(reader: Reader, seconds: float) -> None:
    """Wait until the user's message is saved. Raises Refusal, ClientGone."""
    try:
        async with asyncio.timeout(seconds):
            while not reader.story.entries:
                await wait_for(reader)
    except TimeoutError:
        raise Refusal("overloaded", "The run cannot be read just now.") from None
    first = reader.story.entries[0].update
    if isinstance(first, Broken):
        if first.code == "conversation_not_found":  # erased meanwhile
            raise no_such_run()
        raise Refusal(first.code, first.message)


def _cursor(exchange: Exchange) -> str:
    """The cursor that was sent, "" for none. A header is from the last connection, a query from the first.

    Raises Refusal.
    """
    header = exchange.header(CURSOR_HEADER.lower().encode())
    if len(header) > 1:
        raise invalid(CURSOR_HEADER, "This header is given twice.")
    given = query.parameters(exchange, "cursor").get("cursor", "")
    return (header[0].decode("latin-1").strip() if header else "") or given


def _expired() -> Refusal:
    return Refusal("cursor_expired", "This is no place in the stream of this run.")
