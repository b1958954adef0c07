"""Where calls run: so many at one time, by turns of the accounts, and of the servers within an account."""

from collections.abc import Hashable

from runtime.fair_slots import FairSlots


class Slots:
    """The `slots` of this process. An account gets half of them at most, and one server half of that.

    So servers that do not answer hold up neither another account nor, as long as two are sound, their own.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._accounts = FairSlots(slots)
        self._servers: dict[str, FairSlots] = {}

    async def take(self, account_id: str, server: Hashable) -> None:
        """Wait for a place, and give it back with `release`. Raises SlotsClosed."""
        servers = self._servers.setdefault(account_id, FairSlots(max(1, self._slots // 2)))
        try:
            await servers.take(server)
            try:
                await self._accounts.take(account_id)
            except BaseException:
                servers.release(server)
                raise
        finally:
            self._forget(account_id)

    def release(self, account_id: str, server: Hashable) -> None:
        """Give a place back."""
        self._accounts.release(account_id)
        self._servers[account_id].release(server)
        self._forget(account_id)

    def close(self) -> None:
        """Let nobody begin who has not begun."""
        self._accounts.close()
        for servers in self._servers.values():
            servers.close()

    def _forget(self, account_id: str) -> None:
        servers = self._servers.get(account_id)
        if servers is not None and servers.idle:  # `close` ends many waits, of which the first one forgets
            del self._servers[account_id]
