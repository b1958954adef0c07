"""Generate the documentation's page of error codes; `make format` writes it."""

from agentchat.contracts.errors import ERRORS

_INTRODUCTION = """\
# Error codes

Generated from `contracts.errors` by `make format`.

Before a stream has started an error is a body `application/problem+json` (RFC 9457) with `type`, `title`,
`status`, `detail`, `code`, `trace_id`, and `errors` where fields are wrong. Once your message is saved,
`conversation_id` and the header X-Conversation-Id name its conversation, so that you can read or delete it.
After a stream has started, an error is the event `{"type":"error","code":…,"message":…}`. Both use the codes
of this table. Where a Retry-After header is sent, honour it; for other 5xx statuses use exponential back-off.

| code | status | what it is | what to do |
|---|---|---|---|
"""


def render_error_page() -> str:
    """Return the page of all error codes in Markdown."""
    rows = (f"| `{row.code}` | {row.status} | {row.title} | {row.advice} |\n" for row in ERRORS.values())
    return _INTRODUCTION + "".join(rows)


if __name__ == "__main__":
    import sys

    sys.stdout.write(render_error_page())
