"""Store the file of a form, for our own protocol and OpenAI's."""

from agentchat.directory.api_keys import Caller
from agentchat.files.file_store import FileRow
from agentchat.gateway.http.multipart_form import receive_form
from agentchat.gateway.http.problems import build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest

_SHORTEST = 3600
_MAX_PURPOSE = 64


async def store_upload(request: JsonRequest, *, expires_field: str, longest: int) -> FileRow:
    """Receive a form and store its file for the caller.

    `expires_field` names the part with the seconds until the file is deleted, at most `longest`. Raises
    Refusal, FilesError, DatabaseUnavailable.
    """
    caller, files = request.auth, request.services.files
    form = await receive_form(request)
    purpose = form.fields.get("purpose", "user_data")
    if not 0 < len(purpose) <= _MAX_PURPOSE or not purpose.isprintable():
        raise build_field_refusal("purpose", f"This must be 1 to {_MAX_PURPOSE} characters.")
    stored = await files.put(
        caller.account_id,
        caller.user_id,
        form.name,
        form.content,
        claimed_type=form.claimed_type,
        purpose=purpose,
        expires_seconds=_read_seconds(expires_field, form.fields.get(expires_field), longest),
        room=await find_room(request, caller),
    )
    file = await files.get(caller, stored.file_id)
    assert file is not None, "it has just been stored"
    return file


async def find_room(request: JsonRequest, caller: Caller) -> int | None:
    """Return how many bytes the plan has left; None if it has no bound, or nobody knows."""
    most, figures = caller.plan.storage_bytes, await request.services.figures.get(caller)
    return None if most is None or figures is None else max(0, most - figures.stored_bytes)


def _read_seconds(field: str, text: str | None, longest: int) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not _SHORTEST <= int(text[:12]) <= longest:
        raise build_field_refusal(field, f"This must be a number of seconds from {_SHORTEST} to {longest}.")
    return int(text)
