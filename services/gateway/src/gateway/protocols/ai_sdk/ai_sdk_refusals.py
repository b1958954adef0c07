"""Refusals for the AI SDK's client, which makes the complete body the message of its error, for people.

So a body, and the `errorText` of a stream, is one line: our code, a colon, and a sentence.
"""

from contracts import errors
from gateway.http.problem_responses import Refusal, headers_of

_CHALLENGE = (b"www-authenticate", b'Bearer realm="agent-chat"')


def words(refusal: Refusal, _trace_id: str) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """As `gateway.problems.Words`."""
    data = f"{refusal.row.code}: {refusal.detail}".encode()
    return headers_of(refusal, b"text/plain", data, _CHALLENGE), data


def sentence(code: str, message: str) -> str:
    """Of a stream that failed. A code that the table does not hold must not reach a caller."""
    row = errors.error(code)
    return f"{row.code}: {message or row.title}"
