"""The header block of a NATS message, in and out (NATS protocol, ADR-4)."""

from opentelemetry import trace

MOST_BYTES = 4096
"""Left for the headers of a message, which count in the size that the server takes."""
_VERSION = b"NATS/1.0"


def parse(block: bytes | None) -> dict[str, str]:
    if not block:
        return {}
    found = {}
    for line in block.split(b"\r\n")[1:]:
        name, separator, value = line.partition(b":")
        if separator:
            found[name.strip().decode("utf-8", "replace").lower()] = value.strip().decode("utf-8", "replace")
    return found


def status(block: bytes | None) -> int:
    """The status of a message that the server itself sent (`NATS/1.0 404 No Messages`), 0 for any other."""
    if not block or block[8:9] != b" ":
        return 0
    code = block[9:12]
    return int(code) if code.isdigit() else 0


def description(block: bytes | None) -> str:
    return (block or b"")[13:].partition(b"\r\n")[0].decode("utf-8", "replace")


def traceparent_block() -> bytes:
    """A header block with the W3C traceparent of the current span; b"" where nothing records it."""
    context = trace.get_current_span().get_span_context()
    if not context.trace_flags.sampled:
        return b""
    return b"%b\r\ntraceparent: 00-%032x-%016x-%02x\r\n\r\n" % (
        _VERSION,
        context.trace_id,
        context.span_id,
        context.trace_flags,
    )
