"""The administration as the person of a request uses it: by the routes that `agentchat` and the API use."""

from typing import Any

import msgspec

from administration import Admin
from administration.checked_input import read_json
from administration.routes import BY_NAME
from console.console_services import services_of
from console.frame.access import AnyRequest, session_of


def admin_of(request: AnyRequest) -> Admin:
    """Whose audit rows name the person."""
    return msgspec.structs.replace(services_of(request).admin, actor=session_of(request).actor)


async def administer(request: AnyRequest, route: str, **arguments: Any) -> Any:
    """What a route of the administration's table gives, such as `POST /approvals/{approval_id}/decision`.

    Its body, where it takes one, is given as a struct or as builtins, under the name of the argument; it is
    checked as one that comes over HTTP. Raises AdminError, DatabaseUnavailable, BusUnavailable.
    """
    found = BY_NAME[route]
    if found.body is not None:
        body = msgspec.json.encode(arguments.get(found.body_argument, {}))
        arguments[found.body_argument] = read_json(found.body, body)
    return await found.call(admin_of(request), **arguments)


async def note_read(request: AnyRequest, conversation_id: str, account_id: str | None) -> None:
    """Have it in the audit log who has read the texts of a conversation. Raises DatabaseUnavailable."""
    admin = admin_of(request)
    async with admin.connection() as conn:
        await admin.note(conn, "read", "conversation", conversation_id, after={"account_id": account_id})
