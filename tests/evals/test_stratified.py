"""Sampling by strata: each gets a share, rare ones are kept, and the sample is the same for the same seed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evals.stratified import StratifiedSample, shares_of

SIZES = st.dictionaries(st.integers(0, 30), st.integers(1, 60), min_size=1, max_size=12)


def sampled(sizes: dict[int, int], size: int, seed: int = 0, *, backwards: bool = False) -> list[str]:
    sample: StratifiedSample[int] = StratifiedSample(size, seed)
    items = [(stratum, f"{stratum}/{number}") for stratum, count in sizes.items() for number in range(count)]
    for stratum, item in reversed(items) if backwards else items:
        sample.add(stratum, item)
    return list(sample.chosen())


@given(SIZES, st.integers(1, 200), st.integers(0, 5))
def test_the_sample_is_as_large_as_it_can_be_and_fair(sizes: dict[int, int], size: int, seed: int) -> None:
    chosen = sampled(sizes, size, seed)

    assert len(chosen) == len(set(chosen)) == min(size, sum(sizes.values()))
    got = Counter(int(item.partition("/")[0]) for item in chosen)
    if size >= len(sizes):
        most = max(got.values())
        for stratum, count in sizes.items():
            assert got[stratum] == count or got[stratum] >= most - 1
    assert chosen == sampled(sizes, size, seed)
    assert sorted(chosen) == sorted(sampled(sizes, size, seed, backwards=True))


def test_what_is_rare_is_kept_whole() -> None:
    chosen = Counter(item.partition("/")[0] for item in sampled({0: 100_000, 1: 3, 2: 40}, 50))
    assert chosen == {"0": 24, "1": 3, "2": 23}


def test_another_seed_chooses_others() -> None:
    assert set(sampled({0: 1000}, 10, 1)) != set(sampled({0: 1000}, 10, 2))


def test_no_more_than_the_sample_is_kept_of_a_stratum() -> None:
    sample: StratifiedSample[str] = StratifiedSample(5, 0)
    for number in range(1000):
        sample.add("a", str(number))
    assert sample.seen == {"a": 1000}
    assert len(list(sample.chosen())) == 5


def test_shares() -> None:
    assert shares_of({"a": 1, "b": 10, "c": 10}, 10) == {"a": 1, "b": 4, "c": 5}
