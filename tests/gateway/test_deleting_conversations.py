"""DELETE of a conversation, with an orchestrator that the test plays."""

from contextlib import AbstractAsyncContextManager

from agentchat.contracts import ids, subjects
from agentchat.contracts.messages import EraseAnswered, EraseConversation, EraseOutcome
from tests.gateway.client import Client, check_problem
from tests.gateway.conftest import Accounts
from tests.gateway.worker import Worker


def answer_erasures(
    worker: Worker, outcome: EraseOutcome
) -> AbstractAsyncContextManager[list[EraseConversation]]:
    """Commands are answered so; gives those that come."""
    return worker.answer_requests(subjects.ALL_COMMANDS, EraseConversation, EraseAnswered(outcome=outcome))


async def test_what_was_erased_is_answered_without_a_body(
    client: Client, worker: Worker, accounts: Accounts
) -> None:
    conversation_id = ids.make_id()
    async with answer_erasures(worker, "erased") as heard:
        response = await client.send("DELETE", f"/v1/conversations/{conversation_id.upper()}")
    assert response.status_code == 204
    assert response.content == b""
    assert "content-length" not in response.headers
    assert heard == [
        EraseConversation(
            trace_id=response.headers["x-trace-id"],
            account_id=accounts.free.account_id,
            conversation_id=conversation_id,
        )
    ]


async def test_unknown_erasure_outcome_can_be_retried(client: Client, worker: Worker) -> None:
    async with answer_erasures(worker, "unavailable"):
        response = await client.send("DELETE", f"/v1/conversations/{ids.make_id()}")
    check_problem(response, 503, "overloaded")
    assert response.headers["retry-after"].isdigit()
    response = await client.send("DELETE", f"/v1/conversations/{ids.make_id()}")  # nobody serves
    check_problem(response, 503, "overloaded")
