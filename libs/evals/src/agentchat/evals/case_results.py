"""Define the result of one case. A line of a run's `results.jsonl`."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from agentchat.evals.compared_run import ComparedRun

COMPLETED = "completed"
"""The evaluator that is always used: did the run complete?"""

CaseOutcome = Literal["completed", "failed", "diverged", "not_run", "erased"]
"""`failed`: the new run ended in an error. `diverged`: it called a tool in a way that was never recorded.
`not_run`: it has no result (no worker, a refusing provider, the budget).
"""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one case. `outcome`, with its `detail`, is the worst of all attempts that have one.

    `before` are the values of the recorded run by evaluator, `after` the means of the attempts, from 0 to 1.
    `reasons` say why a value is not 1, `failures` why an evaluator could not judge. `compared` is the attempt
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
