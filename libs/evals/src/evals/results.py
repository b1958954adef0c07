"""What a case came to when it was done again. A line of a run's `results.jsonl`."""

from typing import Literal

import msgspec

from experiments.comparison import ComparedRun

CaseOutcome = Literal["completed", "failed", "diverged", "not_run", "damaged", "erased"]
"""`failed`: the new run ended in an error. `diverged`: it asked for what was never recorded, and the suite
says stop. `not_run`: nothing is known of it (no worker, a provider that refused, the budget). `damaged`:
the case does not fit its hash. Only `completed` is ever a pass.
"""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """One try at one case; `attempt` counts from 1.

    `compared` is there where something is known of it. `diverged_at` says the place ("round 2: get_order
    {...}"). `simulated` are the tool calls that a model answered. `cached`: it was paid for by an
    earlier run.
    """

    case_id: str
    attempt: int
    outcome: CaseOutcome
    detail: str | None = None
    compared: ComparedRun | None = None
    diverged_at: str | None = None
    simulated: tuple[str, ...] = ()
    cached: bool = False
