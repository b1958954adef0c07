"""Shares of versions: the same one for a conversation, as many as their shares, none that comes back."""

import pytest

from agentchat.contracts.ids import make_id
from agentchat.directory.canary_split import choose_version

IDS = [make_id() for _ in range(20_000)]


@pytest.mark.parametrize(
    "shares", [{"12": 95, "13": 5}, {"9": 1, "10": 1}, {"1": 7, "2": 2, "11": 1}, {"4": 10_000}]
)
def test_each_version_answers_its_share(shares: dict[str, int]) -> None:
    total = sum(shares.values())
    answered = [choose_version(shares, each) for each in IDS]
    for version, share in shares.items():
        assert abs(answered.count(int(version)) / len(IDS) - share / total) < 0.015
    assert [choose_version(dict(reversed(shares.items())), each) for each in IDS] == answered


def test_choice_of_version_is_the_same_in_every_release() -> None:
    ids = [f"0192f0c1-7c4e-7aaa-8bbb-{number:012x}" for number in range(12)]
    assert [choose_version({"12": 50, "13": 50}, each) for each in ids] == [
        12,
        13,
        13,
        13,
        13,
        13,
        12,
        12,
        13,
        13,
        13,
        13,
    ]


def test_no_conversation_leaves_the_newest_while_its_share_grows() -> None:
    before: set[str] = set()
    for share in (1, 5, 20, 50, 99):
        now = {each for each in IDS if choose_version({"12": 100 - share, "13": share}, each) == 13}
        assert before < now
        before = now
