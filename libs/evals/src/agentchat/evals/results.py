"""What a case came to when it was answered again. A line of a run's `results.jsonl`."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from agentchat.evals.compared_run import ComparedRun

COMPLETED = "completed"
"""The evaluator that always judges: whether the run completed."""

CaseOutcome = Literal["completed", "failed", "diverged", "not_run", "erased"]
"""`failed`: the new run ended in an error. `diverged`: it called a tool in a way that was never recorded.
`not_run`: nothing is known of it (no worker, a provider that refused, the budget).
"""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is the worst of all tries of which anything is known, with its `detail`.

    `before` are the values of the recorded run by evaluator, `after` those of the tries (means), from 0 to 1.
    `reasons` say why a value is not 1, `failures` why an evaluator could not judge. `compared` is the try
    that is least like the recorded run.
    """

    case_id: str
    outcome: CaseOutcome
    slices: Mapping[str, str] = {}
    detail: str = ""
    before: Mapping[str, float] = {}
    after: Mapping[str, float] = {}
    reasons: Mapping[str, str] = {}
    failures: Mapping[str, str] = {}
    compared: ComparedRun | None = None
