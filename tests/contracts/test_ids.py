"""New ids sort by the time they were made, whatever the clock does."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentchat.contracts.ids import is_unlisted, make_id, make_unlisted_id

MS = 1_000_000


@pytest.mark.parametrize(
    "clock",
    [
        [MS * 1_764_000_000_000] * 5000,
        [MS * (1_764_000_000_000 - number) for number in range(5000)],
        [MS * (1_764_000_000_000 + number // 7) for number in range(5000)],
        [MS * (1_764_000_000_000 + (number * 7919) % 50) for number in range(5000)],
    ],
    ids=["one millisecond", "set back", "slow", "jumping"],
)
def test_ids_ascend_within_a_process(clock: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(clock)
    monkeypatch.setattr(time, "time_ns", lambda: next(times))
    made = [make_id() for _ in clock]
    assert made == sorted(set(made))
    for each in (made[0], made[-1]):
        parsed = uuid.UUID(each)
        assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)


def test_ids_of_threads_are_unique() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = [
            each
            for batch in threads.map(lambda _: [make_id() for _ in range(2000)], range(8))
            for each in batch
        ]
    assert len(set(made)) == len(made)


def test_id_has_the_time_of_its_creation() -> None:
    before = time.time_ns() // MS
    made = [make_id(), make_unlisted_id()]
    after = time.time_ns() // MS + 1000  # a test before may have set the clock ahead
    for each in made:
        assert before - 1 <= int(each.replace("-", "")[:12], 16) <= after
    assert [is_unlisted(each) for each in made] == [False, True]
