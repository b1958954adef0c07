"""The administration on behalf of the person of a request, and the audit rows of what that person reads."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentchat.administration import Admin
from agentchat.console.console_services import services_of
from agentchat.console.frame.access import AnyRequest, session_of


def admin_of(request: AnyRequest) -> Admin:
    """Return the administration; its audit rows name the person of the request."""
    return msgspec.structs.replace(services_of(request).admin, actor=session_of(request).actor)


async def note_read(
    request: AnyRequest, subject: str, account_id: str | None, *, kind: str = "conversation"
) -> None:
    """Have it in the audit log who has read the texts of a conversation, or of an experiment's.

    A page that is loaded is a look, and has a row. The parts that htmx loads into it, and its streams, belong
    to that look, if it is known. Raises Unavailable.
    """
    after = {"account_id": account_id}
    for each in _looks(request, kind, (subject,)):
        await _note_look(request, kind, each, after)


async def note_list(request: AnyRequest, page: str, conversation_ids: Iterable[str]) -> None:
    """The same of who has read titles, words or inputs of tools on a page that lists conversations.

    Raises Unavailable.
    """
    ids = _looks(request, page, tuple(dict.fromkeys(conversation_ids)))
    if ids:
        await _note_look(request, "conversations", page, {"conversations": ids})


async def note_live(request: AnyRequest, watched: Mapping[str, str | None]) -> None:
    """The same of who watches the last words of open runs: all, or those of an account or an agent.

    Raises Unavailable.
    """
    if _looks(request, "now", (msgspec.json.encode(watched).decode(),)):
        await _note_look(request, "conversations", "now", watched)


def _looks(request: AnyRequest, kind: str, ids: Sequence[str]) -> Sequence[str]:
    """What of it is a new look; from now on none of it is."""
    looks, session_id = services_of(request).looks, session_of(request).id
    found = looks.unknown(session_id, kind, ids) if request.headers.get("hx-request") else ids
    looks.add(session_id, kind, found)
    return found


async def _note_look(request: AnyRequest, kind: str, subject: str, after: object) -> None:
    admin = admin_of(request)
    async with admin.connection() as conn:
        await admin.note(conn, "read", kind, subject, after=after)
