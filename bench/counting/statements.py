"""Postgres' log of every statement, with its service and its transaction."""

import os
import re
import signal
from collections import Counter
from pathlib import Path

import msgspec

from ops.folder import RunFolder

_SETTINGS = """
log_statement = 'all'
log_parameter_max_length = 0
log_min_messages = log
log_line_prefix = '@%u @%v @'
autovacuum = off
full_page_writes = off
checkpoint_timeout = 1h
"""
"""The last three keep what is not a chat's out of the WAL."""
_LINE = re.compile(
    r"^@agentchat_(\w+) @(\S+) @LOG:  (?:statement: |execute [^:]*: )(.*(?:\n\t.*)*)", re.MULTILINE
)


class Logged(msgspec.Struct):
    """Statements by service and text, and the transactions that they were in, by service."""

    statements: Counter[tuple[str, str]]
    transactions: Counter[str]


def log_all(folder: RunFolder) -> None:
    """From the next statement of each session on; connections that are made later too."""
    with (folder.postgres / "postgresql.auto.conf").open("a") as settings:
        settings.write(_SETTINGS)
    os.kill(int((folder.postgres / "postmaster.pid").read_text().split()[0]), signal.SIGHUP)


class StatementLog:
    """The log of one server, read on from where it was read to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_to = path.stat().st_size

    def next(self) -> Logged:
        """What was logged since the last call."""
        with self._path.open() as file:
            file.seek(self._read_to)
            text = file.read()
            self._read_to = file.tell()
        found = [(service, vxid, " ".join(words.split())) for service, vxid, words in _LINE.findall(text)]
        own = [each for each in found if each[0] != "operator"]
        return Logged(
            Counter((service, words) for service, _, words in own),
            Counter(service for service, _ in {(service, vxid) for service, vxid, _ in own}),
        )
