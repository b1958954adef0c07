"""What the times of `contracts.timings` must keep to each other, and to bounds that lean on them."""

import pytest

from agentchat.client import Timeouts
from agentchat.contracts import timings as t
from agentchat.runtime.worker import DRAIN_SECONDS
from agentchat.tool_runner.journal import KEPT_SECONDS as JOURNAL_KEPT_SECONDS

NETWORK_SECONDS = 2.0
"""What was sent has arrived by then, or its connection is given up."""


def _at_most(less: float, more: float, why: str) -> object:
    return pytest.param(less, more, id=why)


@pytest.mark.parametrize(
    ("less", "more"),
    [
        _at_most(3 * t.RENEW_SECONDS, t.LEASE_SECONDS, "a lease outlives three renewals"),
        _at_most(
            t.RENEW_SECONDS + 2 * t.RENEWAL_SECONDS + t.RENEW_AGAIN_SECONDS,
            t.HOLD_SECONDS,
            "two renewals in a row may fail",
        ),
        _at_most(
            t.HOLD_SECONDS + NETWORK_SECONDS,
            t.LEASE_SECONDS,
            "what a worker sent last has arrived before another looks at the lease",
        ),
        _at_most(
            t.RENEW_SECONDS + t.BREAK_SECONDS + t.RENEWAL_SECONDS + 2 * t.RENEW_AGAIN_SECONDS,
            t.LEASE_SECONDS,
            "an outage that is no break lets no lease expire",
        ),
        _at_most(2 * t.NOTE_SECONDS, t.BREAK_SECONDS, "a note that is late is no break"),
        _at_most(t.LEASE_SECONDS, t.GRACE_SECONDS, "the sweeper leaves a worker its lease"),
        _at_most(2 * t.ALIVE_SECONDS, t.SILENCE_SECONDS, "one lost `Alive` is no silence"),
        _at_most(3 * t.HEARTBEAT_SECONDS, t.ACK_WAIT_SECONDS, "two heartbeats may be lost"),
        _at_most(
            t.ACCEPT_SECONDS + t.LINE_SECONDS + t.LINE_SLACK_SECONDS,
            t.ADMIT_LEASE_SECONDS,
            "a slot is held until a worker renews it",
        ),
        _at_most(3 * t.RENEW_SECONDS, t.HOLD_LEASE_SECONDS, "a slot outlives three renewals"),
        _at_most(
            t.RUN_SECONDS + t.LINE_SECONDS + t.LINE_SLACK_SECONDS,
            t.FOLLOW_SECONDS,
            "a gateway follows a run to its end",
        ),
        _at_most(t.FOLLOW_SECONDS, t.TRACES_KEPT_SECONDS, "a run's frames are kept while it lasts"),
        _at_most(t.FOLLOW_SECONDS, Timeouts().total, "our client waits as long as a gateway"),
        _at_most(3 * t.PING_SECONDS, Timeouts().read, "our client outlives two lost pings"),
        _at_most(t.STREAMS_DRAIN_SECONDS, t.STOP_SECONDS, "a gateway drains before it is killed"),
        _at_most(t.STREAMS_DRAIN_SECONDS, DRAIN_SECONDS, "a gateway drains before it ends itself"),
        _at_most(t.TOOL_TURN_SECONDS, t.TOOL_SECONDS, "a call in line is answered in its time"),
        _at_most(t.TOOL_SECONDS, t.TOOL_MOST_SECONDS, "what a worker asks for is allowed"),
        _at_most(t.TOOL_ANSWER_SECONDS, t.TOOL_SLACK_SECONDS, "a late result is waited for"),
        _at_most(
            t.TOOL_MOST_SECONDS + t.TOOL_SLACK_SECONDS,
            t.TRACES_KEPT_SECONDS,
            "a result is kept until its worker looks",
        ),
        _at_most(
            t.RUN_SECONDS + t.TOOL_MOST_SECONDS,
            JOURNAL_KEPT_SECONDS,
            "no delivery of a call comes when the journal has forgotten it",
        ),
        _at_most(
            t.TOOLS_LISTED_SECONDS + NETWORK_SECONDS,
            t.TOOLS_LIST_SECONDS,
            "a slow server does not cost the listing of the others",
        ),
        _at_most(
            t.CHECK_SECONDS + NETWORK_SECONDS,
            t.CHECK_ANSWER_SECONDS,
            "a check that took all its time is still heard",
        ),
        _at_most(
            t.COMMAND_SECONDS,
            t.COMMAND_ASKS * t.COMMAND_ASK_SECONDS,
            "the worker that erases can answer one of the askings",
        ),
    ],
)
def test_times_keep_their_order(less: float, more: float) -> None:
    assert less <= more
