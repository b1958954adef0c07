"""Refusals as AG-UI words what went wrong: a RUN_ERROR, before the stream as within it."""

from contracts import errors, wire
from gateway.http.problem_responses import Refusal, headers_of
from gateway.protocols.ag_ui.wire import RunError

_CHALLENGE = (b"www-authenticate", b'Bearer realm="agent-chat"')


def words(refusal: Refusal, _trace_id: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """As `gateway.http.problem_responses.Words`."""
    data = wire.encode(RunError(message=refusal.detail, code=refusal.row.code))
    return headers_of(refusal, b"application/json", data, _CHALLENGE), data


def event(code: str, message: str) -> RunError:
    """Of a stream that failed. A code that the table does not hold must not reach a caller."""
    row = errors.error(code)
    return RunError(message=message or row.title, code=row.code)
