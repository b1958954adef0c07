"""Generated pages are as the code generates them."""

from pathlib import Path

import pytest

from contracts.pages import errors_page

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.requirement("ERROR-TABLE")
def test_the_page_of_error_codes_is_up_to_date() -> None:
    assert (DOCS / "integrate" / "errors.md").read_text() == errors_page(), "run make docs"
