"""Wait for the end of a run, for responses that are not streamed."""

from agentchat.contracts.updates import Broken, Finished, Update, Warned
from agentchat.gateway.http.refusals import ClientDisconnected
from agentchat.gateway.http.request_context import JsonRequest
from agentchat.gateway.runs.run_follower import RunFollower, build_run_refusal


async def wait_for_reply(request: JsonRequest, run: RunFollower) -> tuple[Finished | Broken, list[Update]]:
    """Return the end of a run and all its updates, once it has ended or waits for its client's tools.

    Raises Refusal if it failed or waits for a person; ClientDisconnected.
    """
    updates = await wait_for_end(request, run)
    last = updates[-1]
    if isinstance(last, Broken) and not last.client_calls:
        raise build_run_refusal(last)
    assert isinstance(last, Finished | Broken)
    return last, updates


async def wait_for_end(request: JsonRequest, run: RunFollower) -> list[Update]:
    """Return all updates of a run, once the last is there. Raises ClientDisconnected.

    X-Unavailable-Tools of the response names the tool servers that the run continued without.
    """
    watching = run.watch_client(request.receive)
    try:
        while not run.ended:
            await run.wait()
            if run.gone:
                raise ClientDisconnected
    finally:
        watching.cancel()
    updates = run.take()
    warnings = [update.warning for update in updates if isinstance(update, Warned)]
    if missing := [each.subject for each in warnings if each.code == "tool_server_unavailable"]:
        request.context.add_header("x-unavailable-tools", ", ".join(missing))
    return updates
