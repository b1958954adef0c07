"""From a request that has passed its guards and its body to the run that answers it."""

import msgspec

from conversations.claims.idempotency import Claim
from gateway.chat.admitted_request import AdmittedRequest
from gateway.chat.launch_run import launch
from gateway.chat.resume_run import resume
from gateway.chat.run_request import RunRequest
from gateway.runs.after_pause import AfterPause
from gateway.runs.followed_run import RunFollower


class StartedRun(msgspec.Struct, frozen=True):
    """A run whose user's message is saved, with the claim under which it runs.

    `after_pause`: it has waited, and its updates are those from there on.
    """

    claim: Claim
    run: RunFollower
    after_pause: AfterPause | None = None


async def start(request: AdmittedRequest, requested: RunRequest) -> StartedRun:
    """The run; HTTP 200 may go out when this returns.

    Raises Refusal, ClientGone, BusUnavailable, DatabaseUnavailable.
    """
    if requested.verdicts:
        return StartedRun(*await resume(request, requested))
    return StartedRun(*await launch(request, requested))
