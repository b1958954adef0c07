"""Steps that a release has applied to databases are never edited: later releases only add steps."""

import pytest

import agentchat.conversations.migrations
import agentchat.directory.migrations
import agentchat.knowledge.migrations
import agentchat.tool_runner.migrations
import agentchat.webhooks.migrations
from agentchat.runtime.migrations import digest

RELEASED: dict[str, dict[str, list[str]]] = {}
"""By release and component, the digests of its steps. Each release adds its own."""

STEPS = {
    "conversations": agentchat.conversations.migrations.STEPS,
    "directory": agentchat.directory.migrations.STEPS,
    "journal": agentchat.tool_runner.migrations.STEPS,
    "knowledge": agentchat.knowledge.migrations.STEPS,
    "knowledge vectors": agentchat.knowledge.migrations.VECTOR_STEPS,
    "webhooks": agentchat.webhooks.migrations.STEPS,
}


@pytest.mark.parametrize("component", STEPS)
def test_released_steps_are_unchanged(component: str) -> None:
    steps = [digest(step) for step in STEPS[component]]
    for release, components in RELEASED.items():
        released = components[component]
        assert steps[: len(released)] == released, f"a step of release {release} was edited"
