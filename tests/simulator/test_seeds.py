"""The histories of every test run. `make simulate` runs a million of them each night."""

import pytest

from tests.simulator.search import first_failure, report_of


@pytest.mark.parametrize("first", [1000, 1250])
def test_no_promise_is_broken_in_250_histories(first: int) -> None:
    failure = first_failure(range(first, first + 250))
    assert failure is None, report_of(failure)
