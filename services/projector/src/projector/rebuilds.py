"""Brings read models whose tables are of another version up to this program's, next to the live ones.

While a leader leads, and next to all else that it does: what is live serves until the swap.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from conversations.database import DatabaseError
from conversations.errors import ConversationsError
from conversations.event_store.log import open_log
from conversations.projections.applying import RefusedEvent
from conversations.projections.projection import Projection
from conversations.projections.rebuilding import CONNECTIONS, Watch, due, rebuild
from runtime.logs import first_line, get_logger
from runtime.postgres import DatabaseUnavailable, Pool, open_pool

_AGAIN_SECONDS = 1.0


class LoggedBuild(Watch):
    """A rebuild in the log of the process; `built` is called when a read model was swapped."""

    def __init__(self, built: Callable[[], None]) -> None:
        self._built = built
        self._logger = get_logger("projector.rebuilds")

    def parked(self, name: str, refused: RefusedEvent) -> None:
        self._logger.error("event_parked", projection=name, **msgspec.structs.asdict(refused))

    def resumed(self, name: str, position: int) -> None:
        self._logger.info("rebuild_resumed", read_model=name, position=position)

    def waits(self, name: str) -> None:
        self._logger.warning("swap_waits", read_model=name)

    def swapped(self, name: str, position: int) -> None:
        self._logger.info("read_model_rebuilt", read_model=name, position=position)
        self._built()


class Rebuilds:
    """One look at start, and what it finds; `built` is called when read models may have been swapped."""

    def __init__(
        self,
        database_url: str,
        pool: Pool,
        projections: Sequence[Projection],
        built: Callable[[], None],
    ) -> None:
        self._database_url = database_url
        self._pool = pool
        self._projections = projections
        self._built = built
        self._logger = get_logger("projector.rebuilds")

    async def run(self) -> None:
        """Until none is due any more; tried again and again, whatever is wrong: a leader has more to do."""
        while True:
            try:
                if found := await due(self._pool, self._projections):
                    await self._rebuild(found)
            except (DatabaseUnavailable, ConversationsError, DatabaseError) as error:
                self._logger.warning("cannot_rebuild", reason=first_line(error))
            else:
                return
            finally:
                self._built()  # by another process, perhaps
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _rebuild(self, found: Sequence[Projection]) -> None:
        self._logger.info("rebuild_begins", read_models=[each.name for each in found])
        async with (
            open_pool(self._database_url, max_size=len(found) + CONNECTIONS) as pool,
            open_log(self._database_url, max_size=2) as log,
        ):
            await rebuild(pool, log, found, LoggedBuild(self._built))
