"""What `rebuild` and `verify` share: the names they take, their connections, and a bar."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from conversations.event_store.log import Log, open_log
from conversations.projections.applying import RefusedEvent
from conversations.projections.projection import Projection
from conversations.projections.rebuilding import CONNECTIONS, Watch
from conversations.projections.registry import PROJECTIONS
from ops.admin.progress import progress, warn
from ops.errors import SetupError
from ops.replay import database
from runtime.postgres import Pool, open_pool

T = TypeVar("T")
Work = Callable[[Pool, Log, Sequence[Projection], Watch], Awaitable[T]]


def chosen(names: Sequence[str]) -> list[Projection]:
    """Those of these names, each once; all of them for none. Raises SetupError."""
    known = {each.name: each for each in PROJECTIONS}
    for name in names:
        if name not in known:
            raise SetupError(f"there is no read model {name!r}; there are {', '.join(known)}")
    return [known[name] for name in dict.fromkeys(names)] or list(PROJECTIONS)


def parked(position: int, conversation_id: str) -> str:
    """An event that could not be taken, in words."""
    return f"could not take event {position:,} of conversation {conversation_id}"


def run(verb: str, names: Sequence[str], work: Work[T], *, reports_parked: bool = True) -> T:
    """What `work` returns, with a bar on stderr meanwhile. Raises StackError.

    What is parked meanwhile is reported there at once, unless `work` returns it.
    """
    projections = chosen(names)

    async def with_bar(url: str, _: Pool) -> T:
        with Bar(verb, reports_parked) as bar:
            async with (
                open_pool(url, max_size=len(projections) + CONNECTIONS) as pool,
                open_log(url, max_size=2) as log,
            ):
                return await work(pool, log, projections, bar)

    return database.run(with_bar)


class Bar(Watch):
    """How far it is, on a terminal; what is more than progress is a line on stderr anywhere."""

    def __init__(self, verb: str, reports_parked: bool = True) -> None:
        self._reports_parked = reports_parked
        self._progress = progress(verb)
        self._task = self._progress.add_task("events", total=None)
        self._start = 0

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def resumed(self, name: str, position: int) -> None:
        self._say(f"{name}: goes on at position {position:,}, where it was left")
        self._start = min(position, self._start or position)
        self._progress.reset(self._task, completed=self._start, total=None)  # what was done is no speed

    def advanced(self, position: int, head: int) -> None:
        self._progress.update(self._task, completed=position, total=max(position, head))

    def parked(self, name: str, refused: RefusedEvent) -> None:
        if self._reports_parked:
            self._say(f"{name}: {parked(refused.position, refused.conversation_id)}: {refused.reason}")

    def waits(self, name: str) -> None:
        self._say(f"{name}: its live table is in use; the swap is tried again")

    def _say(self, text: str) -> None:
        warn(self._progress, text)
