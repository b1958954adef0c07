"""Cancel the run of a conversation, and delete a conversation."""

from typing import Any

from litestar import Response, post
from litestar.params import FromPath
from litestar.response import Redirect

from agentchat.administration import admin_conversations, admin_runs
from agentchat.console.services import get_services
from agentchat.console.shared.access_check import AnyRequest, get_admin
from agentchat.console.shared.confirmation import Question, ask, describe_uses
from agentchat.console.shared.console_roles import Role
from agentchat.contracts.admin_errors import Conflict
from agentchat.conversations.event_store.event_log import Log


@post("/conversations/{conversation_id:str}/cancel", status_code=200, role=Role.OPERATOR)
async def post_cancel(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any]:
    """Cancel the run that is under way, or waits for a person. Raises Conflict if there is none."""
    address = f"/conversations/{conversation_id}"
    run = (await Log(get_services(request).pool).load_newest_run(conversation_id.lower())).active
    if run is None:
        raise Conflict("no run of the conversation is under way")
    question = Question(
        title="Cancel this run?",
        text="The reply stops where it is and is kept. Tool calls that have begun are not undone, and "
        "pending approvals are withdrawn.",
        button="Cancel the run",
        back=address,
        about=run.trace_id,
    )
    if asked := ask(request, await request.form(), question):
        return asked
    cancelled = await admin_runs.cancel(get_admin(request), conversation_id)
    return Redirect(f"{address}?run={cancelled.trace_id}", status_code=303)


@post("/conversations/{conversation_id:str}/delete", status_code=200, role=Role.OWNER)
async def post_delete(request: AnyRequest, conversation_id: FromPath[str]) -> Response[Any]:
    """Delete a conversation for every reader."""
    admin = get_admin(request)
    going = (await admin_conversations.delete(admin, conversation_id, dry_run=True)).goes
    question = Question(
        title="Delete this conversation?",
        text=f"This deletes {describe_uses(going)} with all that was said, for every reader and at once. A "
        "run that is under way is cancelled. It cannot be undone. The account's usage keeps the tokens.",
        button="Delete the conversation",
        back=f"/conversations/{conversation_id}",
    )
    if asked := ask(request, await request.form(), question):
        return asked
    await admin_conversations.delete(admin, conversation_id)
    return Redirect("/conversations", status_code=303)


HANDLERS = (post_cancel, post_delete)
