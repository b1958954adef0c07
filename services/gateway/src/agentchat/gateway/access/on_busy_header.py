"""Read what a message does to a run under way in its conversation: `on_busy`, or the header X-On-Busy."""

from typing import Annotated, cast, get_args

from litestar.datastructures import Headers
from litestar.params import HeaderParameter

from agentchat.contracts.values import OnBusy
from agentchat.gateway.http.problems import build_field_refusal

NAME = "X-On-Busy"

OnBusyHeader = Annotated[
    str | None,
    HeaderParameter(
        name=NAME,
        description="For a message while a run is under way in its conversation: `queue`, `refuse`, "
        "`interrupt` or `steer`; without it as the agent says.",
    ),
]
"""Only for the description of a handler: `submit_request` reads it."""


def read_on_busy(headers: Headers, field: str | None) -> OnBusy | None:
    """Return the body's `on_busy`, or the header's; None without either. Raises Refusal: 400."""
    named = field if field is not None else headers.get(NAME)
    if named is None:
        return None
    if named not in get_args(OnBusy):
        message = f"This must be one of {', '.join(get_args(OnBusy))}."
        raise build_field_refusal("on_busy" if field is not None else NAME, message)
    return cast("OnBusy", named)
