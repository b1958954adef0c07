"""The audit log: who has changed what, and who has read which conversation."""

from typing import Any

from litestar import Response, get

from agentchat.administration import admin_audit
from agentchat.console.frame.access import AnyRequest
from agentchat.console.frame.acting import admin_of
from agentchat.console.frame.rendering import page
from agentchat.console.frame.roles import Role

_ROWS = 50


@get("/audit", role=Role.OWNER)
async def get_audit(
    request: AnyRequest, actor: str = "", subject: str = "", kind: str = "", cursor: str | None = None
) -> Response[Any]:
    """The rows, the newest first: of all, or of what is asked for."""
    asked = {"actor": actor.strip(), "subject": subject.strip(), "kind": kind.strip()}
    given = {name: text for name, text in asked.items() if text}
    found = await admin_audit.page(admin_of(request), **given, after=cursor, limit=_ROWS)
    return page(request, "audit.html", title="Audit", rows=found.items, asked=asked, next_cursor=found.after)


HANDLERS = (get_audit,)
