"""The histories of every test run. `make simulate` runs a million of them each night."""

from tests.simulator.search import first_failure, report_of


def test_no_promise_is_broken_in_250_histories() -> None:
    failure = first_failure(range(1000, 1250))
    assert failure is None, report_of(failure)
