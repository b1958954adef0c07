"""Lines in the logs of Postgres and NATS, as `agentchat status` and `agentchat logs` read them."""

import re
from datetime import UTC, datetime

import msgspec

_AT = r"(?P<at>\d{4}.\d\d.\d\d \d\d:\d\d:\d\d\.\d+)"
_POSTGRES = re.compile(_AT + r" UTC \[\d+\] (?P<text>(?P<level>[A-Z]+\d?): +(?P<event>.+))")
_NATS = re.compile(r"\[\d+\] " + _AT + r" (?P<text>\[(?P<level>[A-Z]+)\] (?P<event>.+))")
_LEVELS = {
    **dict.fromkeys(("ERROR", "ERR"), "error"),
    **dict.fromkeys(("FATAL", "PANIC", "FTL"), "critical"),
    **dict.fromkeys(("WARNING", "WRN"), "warning"),
    **dict.fromkeys(("DEBUG", "DBG", "TRC"), "debug"),
}


class ServerLine(msgspec.Struct, frozen=True):
    """A line: `at` is ISO 8601, UTC; `level` one of ours; `text` is the server's level and `event`."""

    at: str
    level: str
    text: str
    event: str


def server_line(line: str) -> ServerLine | None:
    """None for a line of another form."""
    found = _POSTGRES.match(line) or _NATS.match(line)
    if found is None:
        return None
    at = datetime.fromisoformat(found["at"].replace("/", "-")).replace(tzinfo=UTC)
    level = _LEVELS.get(found["level"], "info")
    return ServerLine(at.isoformat().replace("+00:00", "Z"), level, found["text"], found["event"])
