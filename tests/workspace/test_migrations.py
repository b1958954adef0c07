"""Steps that a release has applied to databases are never edited: later releases only add steps."""

import pytest

import conversations.migrations
import directory.migrations
import knowledge.migrations
import tool_runner.migrations
import webhooks.migrations
from runtime.migrations import digest

RELEASED: dict[str, dict[str, list[str]]] = {}
"""By release and component, the digests of its steps. Each release adds its own."""

STEPS = {
    "conversations": conversations.migrations.STEPS,
    "directory": directory.migrations.STEPS,
    "journal": tool_runner.migrations.STEPS,
    "knowledge": knowledge.migrations.STEPS,
    "knowledge vectors": knowledge.migrations.VECTOR_STEPS,
    "webhooks": webhooks.migrations.STEPS,
}


@pytest.mark.parametrize("component", STEPS)
def test_released_steps_are_unchanged(component: str) -> None:
    steps = [digest(step) for step in STEPS[component]]
    for release, components in RELEASED.items():
        released = components[component]
        assert steps[: len(released)] == released, f"a step of release {release} was edited"
