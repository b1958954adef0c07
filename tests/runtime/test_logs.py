import errno
import io
import json
import logging
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from agentchat.runtime import logs


class Lines:
    """The decoded lines of a log."""

    def __init__(self) -> None:
        self.stream = io.TextIOWrapper(io.BytesIO())

    def all(self) -> list[dict[str, Any]]:
        buffer = self.stream.buffer
        assert isinstance(buffer, io.BytesIO)
        return [json.loads(line) for line in buffer.getvalue().splitlines()]

    def only(self) -> dict[str, Any]:
        (line,) = self.all()
        return line


@pytest.fixture
def lines() -> Iterator[Lines]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    captured = Lines()
    logs.configure("gateway", "info", captured.stream)
    yield captured
    structlog.reset_defaults()
    logs.get_logger.cache_clear()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_is_json_with_time_level_service_and_what_is_bound(lines: Lines) -> None:
    with logs.bind_context(trace_id="t1", conversation_id="c1", account_id="a1"):
        logs.get_logger("gateway").info("request_done", status=200)
    logs.get_logger().warning("alone")
    line, alone = lines.all()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "request_done",
        "level": "info",
        "service": "gateway",
        "component": "gateway",
        "status": 200,
        "trace_id": "t1",
        "conversation_id": "c1",
        "account_id": "a1",
    }
    assert "trace_id" not in alone


def test_lines_below_the_level_are_not_written(lines: Lines) -> None:
    logs.get_logger("gateway").debug("detail")
    logging.getLogger("psycopg.pool").info("chatter")
    assert lines.all() == []


def test_the_standard_librarys_logging_takes_the_same_form(lines: Lines) -> None:
    with logs.bind_context(trace_id="t1"):
        logging.getLogger("some.library").error("lost %d of %d", 1, 2)
    line = lines.only()
    assert line["event"] == "lost 1 of 2"
    assert line["component"] == "some.library"
    assert line["level"] == "error"
    assert line["trace_id"] == "t1"


def test_an_exception_is_one_line_with_its_traceback(lines: Lines) -> None:
    try:
        dict[str, int]()["gone"]
    except KeyError:
        logs.get_logger("gateway").exception("failed")
    assert lines.only()["exception"].splitlines()[-1] == "KeyError: 'gone'"


@pytest.mark.parametrize(
    "key",
    ["sk-ac-" + "k" * 43, "sk-ant-api03-" + "A_b-9" * 18, "sk-proj-" + "x" * 40, "sk-" + "T3" * 24],
    ids=["ours", "anthropic", "project", "old"],
)
@pytest.mark.parametrize(
    "text", ["{}", "key={}&x=1", '"{}"', "x_{}", "line\n{}", "tab\t{}", "\x1b{}", "Bearer {}."]
)
def test_every_kind_of_key_is_struck_out(lines: Lines, key: str, text: str) -> None:
    try:
        int(text.format(key))
    except ValueError:
        logs.get_logger("gateway").exception("failed", shown=[text.format(key)])
    logging.getLogger("library").warning("sent %s", text.format(key))
    for line in lines.all():
        assert key[-8:] not in json.dumps(line)
        assert "sk-***" in json.dumps(line)


def test_words_that_only_look_a_little_like_a_key_stay(lines: Lines) -> None:
    logs.get_logger("gateway").info("task-oriented-assistant and sk-short", file="disk-usage-of-everything")
    assert lines.only()["event"] == "task-oriented-assistant and sk-short"
    assert lines.only()["file"] == "disk-usage-of-everything"


def test_nothing_in_a_line_drives_a_terminal_or_turns_its_text(lines: Lines) -> None:
    text = "\x00\x1b[2J\x7f\x9b31m\x85\u2028\u2029\u202e\u2066\u200f\u061c und ü 語"
    logs.get_logger("gateway").info("said", text=text)
    assert lines.only()["text"] == text
    buffer = lines.stream.buffer
    assert isinstance(buffer, io.BytesIO)
    shown = buffer.getvalue().decode().rstrip("\n")
    assert not [each for each in shown if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp")]
    assert "ü 語" in shown


def test_no_value_can_make_a_log_call_raise(lines: Lines) -> None:
    endless: list[Any] = []
    endless.append(endless)
    log = logs.get_logger("gateway")
    log.info("lone surrogate", text="\ud800")
    log.info("object", thing=object(), error=ValueError("x"))
    log.info("endless", thing=endless)
    assert [line["event"].strip("'") for line in lines.all()] == ["lone surrogate", "object", "endless"]


class Disk(io.RawIOBase):
    """Refuses what is written while it is full, as a file does."""

    def __init__(self) -> None:
        self.full = False
        self.written = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.written += bytes(data)
        return len(data)


@pytest.mark.usefixtures("lines")
def test_a_full_disk_stops_no_logger_and_loses_only_whole_lines() -> None:
    disk = Disk()
    stream = io.TextIOWrapper(io.BufferedWriter(disk))
    logs.configure("gateway", "info", stream)
    log = logs.get_logger("test")
    disk.full = True
    for number in range(1000):  # more than a file's buffer holds
        log.info("in_need", number=number)
    disk.full = False
    log.info("again")
    events = [json.loads(line)["event"] for line in disk.written.splitlines()]
    assert events[0] == "in_need"
    assert events[-1] == "again"
