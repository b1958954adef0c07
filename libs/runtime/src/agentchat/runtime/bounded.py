"""A map that forgets what was used longest ago, instead of growing without end."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """At most `max_entries`, and at most `max_size` of what `put` says that they take together."""

    def __init__(self, max_entries: int, max_size: float = float("inf")) -> None:
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._max_entries = max_entries
        self._max_size = max_size
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def size_of(self, key: K) -> int:
        entry = self._entries.get(key)
        return 0 if entry is None else entry[1]

    def pop(self, key: K) -> V | None:
        value, size = self._entries.pop(key, (None, 0))
        self._size -= size
        return value

    def clear(self) -> None:
        self._entries.clear()
        self._size = 0

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Keep a value, which is the newest now, in place of the one of that key."""
        self.pop(key)
        self._entries[key] = value, size
        self._size += size
        while len(self._entries) > self._max_entries or self._size > self._max_size:
            _, (_, freed) = self._entries.popitem(last=False)
            self._size -= freed
