"""Which of an agent's live runs are judged after they end, and by what. Part of a version of the agent."""

from typing import Annotated, Any

import msgspec

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class LiveJudge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model that judges; None: as the agent has it. Another provider is sent runs only if it is named."""

    provider: _Name | None = None
    model: _Name | None = None


class LiveJudging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `share` of the runs, from 0 to 1, is judged by `evaluators`, each as in `suite.yaml`.

    Those that ask a model may use `tokens_per_day` together, by the day in UTC.
    """

    share: Annotated[float, msgspec.Meta(gt=0, le=1)]
    evaluators: Annotated[tuple[dict[str, Any], ...], msgspec.Meta(min_length=1, max_length=20)]
    tokens_per_day: Annotated[int, msgspec.Meta(ge=0, le=10**12)] = 0
    judge: LiveJudge = LiveJudge()
