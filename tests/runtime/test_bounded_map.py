"""A map that forgets what was used longest ago."""

from agentchat.runtime.bounded_map import BoundedMap


def test_a_value_put_again_is_the_newest_and_takes_its_new_size() -> None:
    kept: BoundedMap[str, int] = BoundedMap(10, max_size=100)
    kept.put("a", 1, 60)
    kept.put("b", 2, 40)
    kept.put("a", 3, 50)
    assert kept.get_size("a") == 50
    kept.put("c", 4, 10)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == (3, 2, 4)
    kept.put("d", 5, 1)
    assert (kept.get("a"), kept.get_size("a")) == (None, 0)
    assert kept.get("b") == 2
