"""Find the end user that a request names: in X-User-Id, in OpenAI's protocols also in the body."""

from typing import Any

import msgspec
from litestar.datastructures import Headers

from agentchat.contracts.ownership import MAX_USER_ID, is_user_id
from agentchat.directory.api_keys import Caller
from agentchat.gateway.http.problems import Refusal, build_field_refusal
from agentchat.gateway.http.request_context import JsonRequest

HEADER = "X-User-Id"


class _Body(msgspec.Struct):
    safety_identifier: Any = None
    user: Any = None


_decoder = msgspec.json.Decoder(_Body)


def read_user_header(headers: Headers) -> str | None:
    """Return the user in X-User-Id; None without the header. Raises Refusal: 400."""
    values = headers.getall(HEADER, [])
    if len(values) > 1:
        raise build_field_refusal(HEADER, "Send this header once.")
    return _check_user(HEADER, values[0]) if values else None


def read_user_in_body(body: bytes) -> str | None:
    """Return the user in the body of a request of OpenAI's protocols. Raises Refusal: 400.

    Null and "" name nobody, as everywhere in these protocols. A body that is not JSON names nobody either:
    decoding it later refuses the request.
    """
    try:
        found = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    for field in ("safety_identifier", "user"):
        if (user_id := getattr(found, field)) not in (None, ""):
            return _check_user(field, user_id)
    return None


def set_user(request: JsonRequest, user_id: str) -> None:
    """Set the user of the request's caller."""
    request.scope["auth"] = msgspec.structs.replace(request.auth, user_id=user_id)
    request.context.user_id = user_id


def check_user_named(caller: Caller) -> None:
    """Raise Refusal, 400, if the account requires a user and the request names none."""
    if caller.requires_user and caller.user_id is None:
        raise build_field_refusal(HEADER, "This account requires the id of the end user.")


def check_no_user_named(caller: Caller) -> None:
    """Raise Refusal, 403, if a request for the account itself names a user."""
    if caller.user_id is not None:
        raise Refusal("not_allowed", f"This address is the account's own. Leave {HEADER} out.")


def _check_user(field: str, user_id: Any) -> str:
    if not isinstance(user_id, str) or not is_user_id(user_id):
        raise build_field_refusal(field, f"This must be 1 to {MAX_USER_ID} characters of visible ASCII.")
    return user_id
