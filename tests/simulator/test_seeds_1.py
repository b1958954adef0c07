"""Half of the histories of every test run: files are shared out among processes."""

import pytest

from tests.simulator.search import first_failure, report_of


@pytest.mark.parametrize("first", range(1000, 2000, 250))
def test_no_promise_is_broken_in_250_histories(first: int) -> None:
    failure = first_failure(range(first, first + 250))
    assert failure is None, report_of(failure)
