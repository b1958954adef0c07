"""Provide a map that drops the least recently used entries instead of growing without end."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedMap(Generic[K, V]):
    """A map of at most `max_entries`, whose sizes (as passed to `put`) add up to at most `max_size`."""

    def __init__(self, max_entries: int, max_size: float = float("inf")) -> None:
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._max_entries = max_entries
        self._max_size = max_size
        self._size = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return a value, which is then the most recently used; None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def get_size(self, key: K) -> int:
        """Return the size of a value as `put` was told, 0 if there is none."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry[1]

    def pop(self, key: K) -> V | None:
        """Remove a value and return it; None if there is none."""
        value, size = self._entries.pop(key, (None, 0))
        self._size -= size
        return value

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()
        self._size = 0

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Store a value as the most recently used, replacing the key's earlier one."""
        self.pop(key)
        self._entries[key] = value, size
        self._size += size
        while len(self._entries) > self._max_entries or self._size > self._max_size:
            _, (_, freed) = self._entries.popitem(last=False)
            self._size -= freed
