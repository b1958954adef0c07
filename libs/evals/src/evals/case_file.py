"""`cases.jsonl`: a case a line, in the order of their ids, each with the SHA-256 of its own bytes.

The hash is of the line's JSON without the member `sha256`, which is the last one. So a line of an earlier
release fits its hash whatever members a case has got since. One case is in memory at a time.
"""

import contextlib
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from evals.cases import Case
from evals.errors import UnfitSuite
from evals.suite import explained, private

MOST_LINE_BYTES = 128 * 1024 * 1024
_UNHASHED = b',"sha256":""}'
_HASHED = re.compile(rb',"sha256":"([0-9a-f]{64})"\}')
_HASHED_BYTES = len(_UNHASHED) + 64


class DamagedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is no case, or not the one that was written. `case_id` where that can be read."""

    file: str
    line: int
    case_id: str | None
    reason: str

    def __str__(self) -> str:
        named = "" if self.case_id is None else f"case {self.case_id}: "
        return f"{self.file} line {self.line:,}: {named}{self.reason}"


class CaseWriter:
    """Takes cases in the order of their ids."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._last = ""

    def add(self, case: Case) -> None:
        assert case.id > self._last, "cases come in the order of their ids, each once"
        self._last = case.id
        self._file.write(case_line(case))


@contextlib.contextmanager
def writing_cases(path: Path) -> Iterator[CaseWriter]:
    """The file takes its name when the block has ended; an exception leaves what was there.

    Raises UnfitSuite where it cannot be written.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=private) as file:
            yield CaseWriter(file)
        partial.replace(path)
    except OSError as error:
        raise UnfitSuite(path.name, f"cannot be written: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)


def case_line(case: Case) -> bytes:
    """The case with its hash, as a line."""
    data = msgspec.json.encode(msgspec.structs.replace(case, sha256=""))
    body = data.removesuffix(_UNHASHED)
    return b'%b,"sha256":"%b"}\n' % (body, _hash_of(body).encode())


def read_cases(path: Path) -> Iterator[Case | DamagedCase]:
    """Every line, in order. Raises UnfitSuite where the file cannot be read."""
    last = ""
    try:
        with open(path, "rb") as file:
            for number, data in enumerate(iter(lambda: file.readline(MOST_LINE_BYTES), b""), start=1):
                case, reason = _read(data)
                if case is not None and case.id <= last:
                    reason = f"it comes after case {last}: the file is in the order of ids, each once"
                if case is None or reason:
                    case_id = case.id if case is not None else _id_of(data)
                    yield DamagedCase(file=path.name, line=number, case_id=case_id, reason=reason)
                else:
                    last = case.id
                    yield case
    except OSError as error:
        raise UnfitSuite(path.name, f"cannot be read: {error.strerror or error}") from None


def _read(data: bytes) -> tuple[Case | None, str]:
    """The case of a line, or what is wrong with it."""
    if not data.endswith(b"\n"):
        return None, "the line is cut short" if len(data) < MOST_LINE_BYTES else "the line is too long"
    data = data.rstrip(b"\r\n")
    found = _HASHED.fullmatch(data, max(0, len(data) - _HASHED_BYTES))
    if found is None:
        return None, "it does not end with its sha256"
    if _hash_of(data[: found.start()]) != found[1].decode():
        return None, "its bytes do not fit its sha256: they were changed"
    try:
        return _decoder.decode(data), ""
    except msgspec.ValidationError as error:
        return None, f"not a case: {explained(error)}"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return None, f"not JSON: {error}"


def _hash_of(body: bytes) -> str:
    """Of the JSON object whose beginning, up to its last member, is `body`."""
    digest = hashlib.sha256(body)
    digest.update(b"}")
    return digest.hexdigest()


def _id_of(data: bytes) -> str | None:
    try:
        return _id_decoder.decode(data).id[:100]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Identified(msgspec.Struct, frozen=True):
    id: str


_decoder = msgspec.json.Decoder(Case)
_id_decoder = msgspec.json.Decoder(_Identified)
