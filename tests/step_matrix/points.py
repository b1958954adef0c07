"""The boundaries of a request's life at which a process is hurt, and how."""

from typing import Literal

import msgspec

Action = Literal["kill", "stop", "raise", "eat"]
"""`stop` lasts 15 s. `eat`: the process stands until the answer to its next COMMIT is sure to be lost."""


class Point(msgspec.Struct, frozen=True):
    """A failpoint. `agent`: of what kind the agent has to be, so that runs come by; `commits` after it."""

    name: str
    agent: str = "short"
    commits: bool = False
    time: int = 1

    @property
    def actions(self) -> tuple[Action, ...]:
        return ("kill", "stop", "raise", "eat") if self.commits else ("kill", "stop", "raise")


POINTS = (
    Point("gateway-before-publish"),
    Point("gateway-published"),
    Point("gateway-accepted"),
    Point("gateway-before-last-event"),
    Point("orchestrator-leased", commits=True),
    Point("orchestrator-before-begin", commits=True),
    Point("orchestrator-begun", commits=True),
    Point("orchestrator-accepted", commits=True),
    Point("orchestrator-before-model", "tools", commits=True, time=2),
    Point("orchestrator-said", "long", commits=True, time=3),
    Point("orchestrator-before-append", "tools", commits=True, time=2),
    Point("orchestrator-appended", "tools", commits=True),
    Point("orchestrator-before-tool-request", "tools", commits=True),
    Point("orchestrator-tool-requested", "tools", commits=True),
    Point("orchestrator-tools-returned", "tools", commits=True),
    Point("orchestrator-before-completed", commits=True),
    Point("orchestrator-before-ack", commits=True),
    Point("orchestrator-paused", "asking", commits=True),
    Point("gateway-before-decision", "asking"),
    Point("orchestrator-before-decision", "asking", commits=True),
    Point("orchestrator-decided", "asking", commits=True),
    Point("gateway-decided", "asking"),
    Point("tool-runner-received", "tools"),
    Point("tool-runner-before-journal", "tools"),
    Point("tool-runner-journaled", "tools"),
    Point("tool-runner-called", "tools"),
    Point("tool-runner-published", "tools"),
    Point("projector-in-batch", commits=True),
    Point("projector-batch-committed", commits=True),
    Point("projector-before-feed", commits=True),
    Point("projector-fed", commits=True),
)
"""Of a point that is passed several times in a run, `time` says at which one."""


class Step(msgspec.Struct, frozen=True):
    """A point and what happens there."""

    point: Point
    action: Action

    def __str__(self) -> str:
        return f"{self.point.name} {self.action}"


MATRIX = tuple(Step(point, action) for point in POINTS for action in point.actions)
