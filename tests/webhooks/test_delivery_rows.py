"""Rows of deliveries: how long they are kept, and what they hold."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from agentchat.contracts import events
from agentchat.contracts.examples import EVENT_EXAMPLES
from agentchat.contracts.values import InputAsked
from agentchat.runtime.postgres import Pool
from agentchat.webhooks import delivery_queue, endpoint_disabling, endpoints
from agentchat.webhooks.webhook_bodies import build_body, build_notice
from tests.webhooks.conftest import World
from tests.webhooks.receiver import build_status

_ADD = """
INSERT INTO webhook_deliveries (delivery_id, endpoint_id, type, status, created_at, next_attempt_at)
VALUES (%s, %s, 'run.completed', %s, clock_timestamp() - make_interval(days => %s),
        clock_timestamp() + make_interval(secs => %s))
"""


async def test_what_waits_is_kept_as_long_as_its_endpoint_is_enabled(world: World, pool: Pool) -> None:
    live, disabled = [(await world.create_endpoint("https://hooks.example/x")).id for _ in range(2)]
    await world.execute(
        "UPDATE webhook_endpoints SET disabled_at = clock_timestamp() WHERE endpoint_id = %s", disabled
    )
    for endpoint_id in (live, disabled):
        for days in (29, 31):
            await world.execute(_ADD, f"waits {endpoint_id} {days}", endpoint_id, "waiting", days, 60)
            await world.execute(_ADD, f"done {endpoint_id} {days}", endpoint_id, "delivered", days, None)
    assert await delivery_queue.delete_old_deliveries(pool, 2) == 2
    assert await delivery_queue.delete_old_deliveries(pool, 2) == 1
    assert await delivery_queue.delete_old_deliveries(pool, 2) == 0
    left = {each.id for id_ in (live, disabled) for each in await world.list_deliveries(id_)}
    assert left == {
        *(f"{what} {id_} 29" for what in ("waits", "done") for id_ in (live, disabled)),
        f"waits {live} 31",
    }
    assert (await endpoints.get_endpoint(pool, world.account_id, disabled)).disabled


async def test_figures_count_what_waits_and_what_fails(world: World, pool: Pool) -> None:
    world.receiver.answer_with("/fails", build_status(500))
    await world.create_endpoint("/fails", "run.completed")
    held = await world.create_endpoint("/held", "run.completed")
    await world.execute(
        "UPDATE webhook_endpoints SET not_before = clock_timestamp() + interval '1 hour'"
        " WHERE endpoint_id = %s",
        held.id,
    )
    await world.chat()
    await world.receiver.wait_until("/fails", 1)
    await world.wait_until(held.id, lambda found: len(found) == 1)
    async with asyncio.timeout(20):
        while (found := await delivery_queue.load_figures(pool)).failing == 0:  # noqa: ASYNC110 - another task
            await asyncio.sleep(0.02)
    assert found == delivery_queue.EndpointFigures(endpoints=2, failing=1, waiting=2, behind=1)


@pytest.mark.parametrize(
    ("kind", "type_", "more"),
    [
        (
            events.FeedbackGiven,
            "feedback.given",
            {
                "score": -1.0,
                "label": "wrong",
                "comment": "It has not left the warehouse.",
                "on_behalf_of": "ada@shop.example",
            },
        ),
        (events.FeedbackWithdrawn, "feedback.withdrawn", {"on_behalf_of": "ada@shop.example"}),
    ],
)
def test_only_full_deliveries_have_the_content_of_feedback(
    kind: type[events.Fact], type_: str, more: dict[str, object]
) -> None:
    (example,) = (each for each in EVENT_EXAMPLES if isinstance(each, kind))
    notice = build_notice(1, "conversation", 2, example)
    assert notice is not None
    assert notice.type == type_
    full = msgspec.json.decode(build_body("msg_1", notice, "full"))["data"]
    thin = msgspec.json.decode(build_body("msg_1", notice, "thin"))["data"]
    ids = {"position": 1, "conversation_id": "conversation", "version": 2}
    assert thin == ids | {"trace_id": example.trace_id, "message_id": full["message_id"]}
    assert {name: value for name, value in full.items() if name not in thin and name != "by"} == more
    assert full["by"]["kind"] == "account"


def test_bodies_name_the_user_of_the_conversation() -> None:
    (started,) = (each for each in EVENT_EXAMPLES if isinstance(each, events.ConversationStarted))
    (ended,) = (each for each in EVENT_EXAMPLES if isinstance(each, events.RunCancelled))
    for event in (started, ended):
        notice = build_notice(1, "conversation", 2, event)
        assert notice is not None
        data = msgspec.json.decode(build_body("msg_1", notice, "thin", started=started))["data"]
        assert (data["user_id"], data["external_id"]) == ("CUST-001", "ticket-4711")
        assert "user_id" not in msgspec.json.decode(build_body("msg_1", notice, "thin"))["data"]


def test_full_deliveries_have_a_tools_question_without_its_state() -> None:
    (example,) = (each for each in EVENT_EXAMPLES if isinstance(each, events.ElicitationRequested))
    asks = InputAsked(message="Why?", name="cancel", input={}, key="a", request_state="opaque")
    notice = build_notice(1, "conversation", 2, replace(example, asked=asks))
    assert notice is not None
    assert notice.type == "approval.requested"
    full = msgspec.json.decode(build_body("msg_1", notice, "full"))["data"]
    thin = msgspec.json.decode(build_body("msg_1", notice, "thin"))["data"]
    assert full["elicitation"] == {"message": "Why?"}
    assert thin.keys() & {"elicitation", "tool", "agent_id"} == set()


@pytest.mark.parametrize(
    ("days", "failed", "succeeded", "gone", "reason", "failing_days"),
    [
        (5, True, False, False, "failing", 5),
        (4, True, False, False, None, 4),
        (5, True, True, False, None, 0),
        (None, True, False, False, None, 0),
        (None, False, True, True, "gone", 0),
        (5, False, True, False, None, None),
    ],
)
def test_five_days_without_success_or_a_410_disable(
    days: int | None, failed: bool, succeeded: bool, gone: bool, reason: str | None, failing_days: int | None
) -> None:
    """A success begins the five days again; `gone` counts though another answer was a success."""
    now = datetime.now(UTC)
    before = None if days is None else now - timedelta(days=days)
    ends = {"succeeded": succeeded, "gone": gone}
    assert endpoint_disabling.decide_disabling(before, now, failed=failed, **ends) == reason
    since = endpoint_disabling.find_failing_since(before, now, failures=int(failed), **ends)
    assert since == (None if failing_days is None else now - timedelta(days=failing_days))
