"""How much of conversations a process has loaded for an account at a time, so that others have memory too.

It is counted in bytes of stored events, of which a state takes about as many.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar

from conversations.errors import TooMuchLoaded

ACCOUNT_BYTES = 256 * 1024 * 1024
"""Four of the longest conversations that there may be."""


class LoadBudget:
    """Of each account so many bytes."""

    def __init__(self) -> None:
        self._loaded: Counter[str] = Counter()

    @contextlib.contextmanager
    def loading_for(self, account_id: str) -> Iterator[None]:
        """What is loaded within the block, and in tasks that it begins, counts until the block ends.

        That is one conversation, however often. Its load raises TooMuchLoaded where the account would have
        more than its bytes, unless it has no other. Once it was loaded, it may grow.
        """
        block = _Block(self._loaded, account_id)
        token = _block.set(block)
        try:
            yield
        finally:
            _block.reset(token)
            block.end()


class _Block:
    def __init__(self, loaded: Counter[str], account_id: str) -> None:
        self._loaded = loaded
        self._account_id = account_id
        self._size = 0
        self._has_ended = False  # a task may live on
        self.is_whole = False

    def count(self, size: int) -> None:
        others = self._loaded[self._account_id] - self._size
        if not self.is_whole and others and others + size > ACCOUNT_BYTES:
            raise TooMuchLoaded(self._account_id)
        if size > self._size and not self._has_ended:
            self._loaded[self._account_id] += size - self._size
            self._size = size

    def end(self) -> None:
        self._has_ended = True
        self._loaded[self._account_id] -= self._size
        if not self._loaded[self._account_id]:
            del self._loaded[self._account_id]


_block: ContextVar[_Block | None] = ContextVar("block that loads a conversation", default=None)


def count_loaded(size: int, *, whole: bool = False) -> None:
    """Count what has been read of a conversation so far, or one that is `whole`; see LoadBudget.

    Raises TooMuchLoaded, for what is not whole.
    """
    if (block := _block.get()) is not None:
        block.is_whole = block.is_whole or whole
        block.count(size)
