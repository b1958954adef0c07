"""What a release has applied to databases is never edited: later releases only add steps."""

import pytest

import conversations.migrations
import directory.migrations
import journal.migrations
import knowledge.migrations
import webhooks.migrations
from runtime.migrations import digest

RELEASED = {
    "0.9.0": {
        "conversations": ["843bd3b223a020c496c5323b3788272718bf9ec341ea32c4e801752c16384ded"],
        "directory": ["43070dc47f6f3fbfafaf80db27b893e9681db02825d5d71c591d77ee0d0d3824"],
        "journal": ["1f88c65eebf40780dd5c4812efb48e4a1058de9fb3609d6ca03e92b2a356b40c"],
        "knowledge": ["35c2be4aab00f4bcb05ecca7824c8032f2295c2817a5de2b4c38d0d710449504"],
        "knowledge vectors": ["9270ab4ff366ef3cc726ace9980a3d5653ba1cce7d71c2d771407056f6307e31"],
        "webhooks": ["9e626d5ca9021ffa7e52880822c82d3d3c92d800083da8975cc66630cd343751"],
    }
}
"""The digests of the steps of each release; a release adds its own."""

STEPS = {
    "conversations": conversations.migrations.STEPS,
    "directory": directory.migrations.STEPS,
    "journal": journal.migrations.STEPS,
    "knowledge": knowledge.migrations.STEPS,
    "knowledge vectors": knowledge.migrations.VECTOR_STEPS,
    "webhooks": webhooks.migrations.STEPS,
}


@pytest.mark.parametrize(("release", "component"), [(each, name) for each in RELEASED for name in STEPS])
def test_the_steps_of_a_release_are_the_first_of_ours(release: str, component: str) -> None:
    released = RELEASED[release][component]
    assert [digest(step) for step in STEPS[component]][: len(released)] == released
