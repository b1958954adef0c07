"""`cases.jsonl`: a case a line, in the order of their ids, each with the SHA-256 of its own bytes.

The hash is of the line's JSON without the member `sha256`, which is the last one. So a line of an earlier
release fits its hash whatever members a case has got since. One case is in memory at a time.
"""

import contextlib
import hashlib
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec.structs import replace

from evals.cases import Case
from evals.suite import explained, reading, replacing

MOST_LINE_BYTES = 128 * 1024 * 1024
_UNHASHED = b',"sha256":""}'
_HASHED = re.compile(rb',"sha256":"([0-9a-f]{64})"\}')
_HASHED_BYTES = len(_UNHASHED) + 64


class DamagedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A line that is no case, or not the one that was written. Its ids where they can be read."""

    file: str
    line: int
    case_id: str | None
    conversation_id: str | None
    reason: str

    def __str__(self) -> str:
        named = "" if self.case_id is None else f"case {self.case_id}: "
        return f"{self.file} line {self.line:,}: {named}{self.reason}"


class CaseWriter:
    """Takes cases in the order of their ids, and puts them among those that were there.

    A case that was there is replaced, and keeps its `checks`, which are its owner's.
    """

    def __init__(self, file: BinaryIO, before: Iterator[tuple[bytes, Case | DamagedCase]]) -> None:
        self._file = file
        self._before = before
        self._next = next(before, None)
        self._last = ""

    def add(self, case: Case) -> None:
        assert case.id > self._last, "cases come in the order of their ids, each once"
        self._last = case.id
        same = self._copy_before(case.id)
        self._file.write(case_line(case if same is None else replace(case, checks=same.checks)))

    def copy_rest(self) -> None:
        while self._next is not None:
            self._copy()

    def _copy_before(self, case_id: str) -> Case | None:
        """The case of that id, which is left out."""
        while self._next is not None:
            found = self._next[1]
            if isinstance(found, Case) and found.id >= case_id:
                if found.id > case_id:
                    return None
                self._next = next(self._before, None)
                return found
            self._copy()
        return None

    def _copy(self) -> None:
        assert self._next is not None, "there is a line left"
        data = self._next[0]
        self._file.write(data if data.endswith(b"\n") else data + b"\n")
        self._next = next(self._before, None)


@contextlib.contextmanager
def writing_cases(path: Path, *, keep: bool = False) -> Iterator[CaseWriter]:
    """The file takes its name when the block has ended; an exception leaves what was there.

    With `keep` cases are added to those that are there; damaged lines stay. Raises UnfitSuite.
    """
    with replacing(path) as file:
        writer = CaseWriter(file, read_lines(path) if keep and path.exists() else iter(()))
        yield writer
        writer.copy_rest()


def change_case(path: Path, case_id: str, change: Callable[[Case], Case]) -> bool:
    """Put what `change` gives in the place of a case; False where there is none. Raises UnfitSuite."""
    found = False
    with replacing(path) as file:
        for data, each in read_lines(path):
            if isinstance(each, Case) and each.id == case_id:
                found = True
                file.write(case_line(change(each)))
            else:
                file.write(data)
    return found


def remove_lines(path: Path, numbers: Collection[int]) -> None:
    """Lines by their numbers, from 1; the others keep their bytes. Raises UnfitSuite."""
    with replacing(path) as file:
        file.writelines(data for number, data in enumerate(_lines(path), start=1) if number not in numbers)


def case_line(case: Case) -> bytes:
    """The case with its hash, as a line."""
    data = msgspec.json.encode(replace(case, sha256=""))
    body = data.removesuffix(_UNHASHED)
    return b'%b,"sha256":"%b"}\n' % (body, _hash_of(body).encode())


def read_cases(path: Path) -> Iterator[Case | DamagedCase]:
    """Every line, in order. Raises UnfitSuite where the file cannot be read."""
    return (each for _, each in read_lines(path))


def read_lines(path: Path) -> Iterator[tuple[bytes, Case | DamagedCase]]:
    """The same, each with its bytes."""
    last = ""
    for number, data in enumerate(_lines(path), start=1):
        case, reason = _read(data)
        if case is not None and case.id <= last:
            reason = f"it comes after case {last}: the file is in the order of ids, each once"
        if case is None or reason:
            yield data, _damaged(path.name, number, data, reason)
        else:
            last = case.id
            yield data, case


def _lines(path: Path) -> Iterator[bytes]:
    with reading(path) as file:
        yield from iter(lambda: file.readline(MOST_LINE_BYTES), b"")


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


class _Place(msgspec.Struct, frozen=True):
    conversation_id: str


class _Identified(msgspec.Struct, frozen=True):
    id: str
    origin: _Place


def _damaged(file: str, line: int, data: bytes, reason: str) -> DamagedCase:
    case_id = conversation_id = None
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _id_decoder.decode(data)
        case_id, conversation_id = found.id[:100], found.origin.conversation_id[:100]
    return DamagedCase(file=file, line=line, case_id=case_id, conversation_id=conversation_id, reason=reason)


_decoder = msgspec.json.Decoder(Case)
_id_decoder = msgspec.json.Decoder(_Identified)
