"""From a request to the run that answers it: all checks, in their order (docs/change/design.md 6)."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request

from conversations.claims.idempotency import Claim
from directory.caller import Caller
from gateway.access.admission import admit
from gateway.access.auth import caller_of
from gateway.chat.idempotency_key import key_of
from gateway.chat.launch_run import launch
from gateway.chat.resume_run import resume
from gateway.chat.run_request import RunRequest, RunRequester
from gateway.gateway_services import Parts, parts_of
from gateway.http.exchange import Exchange, of
from gateway.runs.after_pause import AfterPause
from gateway.runs.followed_runs import Runs
from gateway.runs.run_follower import RunFollower

A = TypeVar("A", bound=RunRequest)


class ChatEndpoint(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """What a protocol does in its own way, in this order.

    `credentials` gives the key and the agent's id, where a header has one. `is_retry`: a client says that it
    has sent this before. `form` gives the name of the answer's form. All raise Refusal.
    """

    credentials: Callable[[Exchange], tuple[str, str | None]]
    is_retry: Callable[[Exchange], bool] = lambda _: False
    form: Callable[[Parts, Exchange, Caller], str]
    read: Callable[[Parts, Exchange, RunRequester], Awaitable[A]]

    @property
    def stages(self) -> tuple[Callable[..., Any], ...]:
        """For `described`."""
        stages = (Runs.check, self.credentials, key_of, admit, self.form, self.read, launch)
        return tuple(getattr(each, "func", each) for each in stages)  # of a partial, what it calls


class StartedRun(msgspec.Struct, Generic[A], frozen=True):
    """What was asked, and a run whose user's message is saved, with the claim under which it runs.

    `behind`: it has waited, and is told from there on.
    """

    requested: A
    claim: Claim
    run: RunFollower
    behind: AfterPause | None = None


async def start(request: Request[Any, Any, Any], way: ChatEndpoint[A]) -> StartedRun[A]:
    """Key, limits and plan, headers and agent, body, conversation. HTTP 200 may go out when this returns.

    One function, and no guards and dependencies of Litestar: those took a seventh of a chat's time here
    (decision 45). Raises Refusal, ClientGone, BusUnavailable, DatabaseUnavailable.
    """
    parts, exchange = parts_of(request), of(request.scope)
    parts.runs.check()
    api_key, agent_id = way.credentials(exchange)
    caller, agent = await caller_of(exchange, parts, api_key, agent_id)
    key = await key_of(exchange, parts.pool, caller.account_id)
    slot = await admit(parts, exchange, caller, repeats=key.repeats or way.is_retry(exchange))
    form = way.form(parts, exchange, caller)
    key.check()
    async with parts.runs.receiving():
        requested = await way.read(parts, exchange, RunRequester(caller, agent_id, agent, form))
    if requested.verdicts:
        return StartedRun(requested, *await resume(parts, exchange, caller, slot, requested))
    return StartedRun(requested, *await launch(parts, exchange, caller, key, slot, requested))
