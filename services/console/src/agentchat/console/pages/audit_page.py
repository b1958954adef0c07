"""Show the audit log: who changed what, and who read which conversation."""

from typing import Any

from litestar import Response, get

from agentchat.administration import admin_audit
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.console_roles import Role
from agentchat.console.shared.rendering import render_page

_ROWS = 50


@get("/audit", role=Role.OWNER)
async def get_audit(
    request: AnyRequest, actor: str = "", subject: str = "", kind: str = "", cursor: str | None = None
) -> Response[Any]:
    """List the rows, the newest first, filtered by actor, subject and kind."""
    asked = {"actor": actor.strip(), "subject": subject.strip(), "kind": kind.strip()}
    given = {name: text for name, text in asked.items() if text}
    found = await admin_audit.page(get_admin(request), **given, after=cursor, limit=_ROWS)
    return render_page(
        request, "audit.html", title="Audit", rows=found.items, asked=asked, next_cursor=found.after
    )


HANDLERS = (get_audit,)
