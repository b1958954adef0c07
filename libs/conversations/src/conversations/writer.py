"""One thread that writes: appends that wait at the same time are stored in one transaction.

The library's recorder is synchronous and costs about a millisecond a transaction, however many events it
holds. Appends to one conversation never share a transaction; one that cannot be stored fails alone.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from eventsourcing.persistence import (
    DataError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    PersistenceError,
    ProgrammingError,
    StoredEvent,
)

from conversations.errors import StoreUnavailable, UnstorableEvent, VersionConflict
from conversations.recorder import Datastore, Recorder
from runtime.logs import get_logger

APPEND_SECONDS = 4.0
_RETRY_SECONDS = 0.1
_MAX_BATCH = 128
_CLOSE_SECONDS = 5.0

Outcome = StoreUnavailable | UnstorableEvent | VersionConflict | None
T = TypeVar("T")


class Append:
    """One call of `append` on its way: all of its events are stored, or none."""

    def __init__(self, conversation_id: str, expected: int, stored: list[StoredEvent]) -> None:
        self.conversation_id = conversation_id
        self.expected = expected
        self.stored = stored
        self.deadline = time.monotonic() + APPEND_SECONDS
        self.loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self.loop.create_future()


class Writer:
    """The thread and its queue. `submit` and `close` are called on the event loop."""

    def __init__(self, datastore: Datastore) -> None:
        self._datastore = datastore
        self._recorder: Recorder | None = None
        self._queue: queue.SimpleQueue[Append | None] = queue.SimpleQueue()
        self._held: list[Append | None] = []
        self._thread = threading.Thread(target=self._run, name="conversation-writer", daemon=True)
        self._thread.start()

    def submit(self, append: Append) -> None:
        """Have it stored; `append.done` gets the outcome."""
        self._queue.put(append)

    def close(self) -> None:
        """Store what is queued and end the thread; blocks for some seconds at most."""
        self._queue.put(None)
        self._thread.join(_CLOSE_SECONDS)

    def _run(self) -> None:
        while batch := self._collect():
            try:
                outcomes = self._store(batch)
            except Exception as error:  # noqa: BLE001 - the thread's outermost loop
                get_logger("conversations.writer").exception("append_failed")
                outcomes = [(append, StoreUnavailable(repr(error))) for append in batch]
            _tell(outcomes)

    def _collect(self) -> list[Append]:
        """What to store next, of different conversations; [] to end."""
        batch: dict[str, Append] = {}
        while len(batch) < _MAX_BATCH:
            try:
                append = self._held.pop() if self._held else self._queue.get(block=not batch)
            except queue.Empty:
                break
            if append is None and not batch:
                break
            if append is None or append.conversation_id in batch:
                self._held.append(append)
                break
            batch[append.conversation_id] = append
        return list(batch.values())

    def _store(self, batch: list[Append]) -> list[tuple[Append, Outcome]]:
        stored = [event for append in batch for event in append.stored]
        try:
            self._try(batch, lambda recorder: recorder.insert_once(stored))
        except (OperationalError, InterfaceError) as error:  # of the server, and so of all of them
            return [(append, _unavailable(error)) for append in batch]
        except Exception as error:  # noqa: BLE001 - of whichever append: the others are stored without it
            if len(batch) == 1:
                return [(batch[0], self._failed(batch[0], error))]
            return [outcome for append in batch for outcome in self._store([append])]
        return [(append, None) for append in batch]

    def _failed(self, append: Append, error: Exception) -> Outcome:
        """What becomes of an append that failed on its own."""
        match error:
            case IntegrityError():
                return self._settle(append)
            case DataError() | UnicodeError():
                return UnstorableEvent(append.conversation_id, _first_line(error))
            case PersistenceError():
                return _unavailable(error)
            case _:
                get_logger("conversations.writer").error("append_failed", exc_info=error)
                return StoreUnavailable(repr(error))

    def _settle(self, append: Append) -> Outcome:
        """A version is taken. It may be by this very append, whose commit was not acknowledged."""
        first, last = append.expected, append.expected + len(append.stored)
        try:
            found = self._try([append], lambda by: by.select_once(append.conversation_id, first, last))
        except PersistenceError as error:
            return _unavailable(error)
        return None if found == append.stored else VersionConflict(append.conversation_id, first)

    def _try(self, batch: list[Append], action: Callable[[Recorder], T]) -> T:
        """Again and again until the deadline, where that may help."""
        deadline = max(append.deadline for append in batch)
        while True:
            try:
                return action(self._connected())
            except (IntegrityError, ProgrammingError, DataError, NotSupportedError):
                raise
            except PersistenceError:
                if time.monotonic() + _RETRY_SECONDS >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)

    def _connected(self) -> Recorder:
        """The recorder, made when Postgres can first be reached: it looks up the type of its rows there."""
        if self._recorder is None:
            recorder = Recorder(self._datastore)
            if not self._datastore.psycopg_type_adapters:
                raise ProgrammingError("the event table has not been created: run the migrations")
            self._recorder = recorder
        return self._recorder


def _tell(outcomes: list[tuple[Append, Outcome]]) -> None:
    """Hand the outcomes to the event loops that wait for them; a loop that has ended needs none."""
    for loop in {append.loop for append, _ in outcomes}:
        own = [(append.done, outcome) for append, outcome in outcomes if append.loop is loop]
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle_futures, own)


def _settle_futures(outcomes: list[tuple[asyncio.Future[None], Outcome]]) -> None:
    for future, outcome in outcomes:
        if future.done():
            continue  # its caller waits no more
        if outcome is None:
            future.set_result(None)
        else:
            future.set_exception(outcome)


def _unavailable(error: PersistenceError) -> StoreUnavailable:
    return StoreUnavailable(_first_line(error))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
