"""Record in the audit log what a person reads in the console."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin, get_session


async def record_read(
    request: AnyRequest, subject: str, account_id: str | None, *, kind: str = "conversation"
) -> None:
    """Record that a person reads the texts of a conversation or of a what-if.

    Each page load adds a row. Parts that htmx loads into the page, and its streams, belong to that view and
    add none, as long as the view is known. Raises Unavailable.
    """
    after = {"account_id": account_id}
    for each in _find_new_views(request, kind, (subject,)):
        await _add_audit_row(request, kind, each, after)


async def record_list_read(request: AnyRequest, page: str, conversation_ids: Iterable[str]) -> None:
    """Record that a person reads texts on a page that lists conversations.

    Raises Unavailable.
    """
    ids = _find_new_views(request, page, tuple(dict.fromkeys(conversation_ids)))
    if ids:
        await _add_audit_row(request, "conversations", page, {"conversations": ids})


async def record_export(request: AnyRequest, page: str, query: str) -> None:
    """Record that a person downloads what a page lists at an address. Raises Unavailable."""
    await _add_audit_row(request, "conversations", page, {"csv": query})


async def record_live_read(request: AnyRequest, watched: Mapping[str, str | None]) -> None:
    """Record that a person watches the texts of open runs, all or some (`watched`).

    Raises Unavailable.
    """
    if _find_new_views(request, "now", (msgspec.json.encode(watched).decode(),)):
        await _add_audit_row(request, "conversations", "now", watched)


def _find_new_views(request: AnyRequest, kind: str, ids: Sequence[str]) -> Sequence[str]:
    """Return the ids that are new views, and remember all of them."""
    views, session_id = get_services(request).recent_views, get_session(request).id
    found = views.find_new(session_id, kind, ids) if request.headers.get("hx-request") else ids
    views.add(session_id, kind, found)
    return found


async def _add_audit_row(request: AnyRequest, kind: str, subject: str, after: object) -> None:
    admin = get_admin(request)
    async with admin.connection() as conn:
        await admin.note(conn, "read", kind, subject, after=after)
