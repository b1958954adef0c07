"""How far the notifier is behind the log, as metrics."""

from collections.abc import Collection

from notifier.sender import Sender
from runtime import telemetry

BEHIND = "agentchat.webhooks.events_behind"
"""Of the log, for the endpoint that is behind the most of those that answer."""

FAILING = "agentchat.webhooks.endpoints_failing"
"""Enabled endpoints whose last attempt failed. They stay behind until they answer, whoever sends."""


def report_lag(head: int, senders: Collection[Sender], name: str) -> None:
    """To be called every half minute. `head` is the last position of the log."""
    answering = [each for each in senders if each.target.failures == 0]
    behind = max((head - each.position for each in answering), default=0)
    telemetry.measure(BEHIND, max(behind, 0), worker=name)
    telemetry.measure(FAILING, len(senders) - len(answering), worker=name)
