"""A refusal as its problem document (RFC 9457). Pure."""

from collections.abc import Sequence

from contracts import errors, http
from contracts.values import ApprovalNeeded


def problem(
    code: str,
    detail: str | None,
    trace_id: str,
    fields: Sequence[http.FieldError] = (),
    approvals: Sequence[ApprovalNeeded] = (),
) -> http.Problem:
    """The document of one of the codes; without a `detail` it has the code's advice."""
    row = errors.error(code)
    return http.Problem(
        type=f"urn:agent-chat:problem:{row.code}",
        title=row.title,
        status=row.status,
        detail=detail or row.advice,
        code=row.code,
        trace_id=trace_id,
        errors=tuple(fields) or None,
        approvals=tuple(approvals) or None,
    )
