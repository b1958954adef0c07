"""Which fault strikes a request: none, an answer with an error status, or a stream that breaks.

`times` counts attempts at one turn: the model and the messages without any continuation. The count begins
anew once an attempt was let through, so that a later run of the same turn sees the same.
"""

from collections import OrderedDict
from typing import Literal

import msgspec

from model_demo.controls import Controls

_MOST_TURNS = 10_000
Kind = Literal["status", "error", "cut", "reset", "hang", "garbage"]


class Fault(msgspec.Struct, frozen=True):
    """`status` comes before anything is sent; the others after `after` deltas of a stream."""

    kind: Kind
    after: int = 0


def of(controls: Controls) -> Fault | None:
    """The fault that the controls ask for; of several the first in this order."""
    if controls.fail is not None and controls.fail_after is None:
        return Fault("status")
    asked: list[tuple[Kind, int | None]] = [
        ("error", controls.fail_after),
        ("cut", controls.cut_after),
        ("reset", controls.reset_after),
        ("hang", controls.hang_after),
        ("garbage", controls.garbage_after),
    ]
    for kind, after in asked:
        if after is not None:
            return Fault(kind, after)
    return None


class Attempts:
    """How often each turn was struck. Bounded: the longest unseen turn is forgotten first."""

    def __init__(self) -> None:
        self._struck: OrderedDict[bytes, int] = OrderedDict()

    def fault(self, controls: Controls, key: bytes) -> Fault | None:
        """The fault that strikes this attempt at the turn `key`, or none."""
        fault = of(controls)
        if fault is None or controls.times is None:
            return fault
        struck = self._struck.pop(key, 0)
        if struck >= controls.times:
            return None
        self._struck[key] = struck + 1
        if len(self._struck) > _MOST_TURNS:
            self._struck.popitem(last=False)
        return fault
