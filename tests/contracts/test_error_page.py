"""Generated pages are as the code generates them."""

from pathlib import Path

from agentchat.contracts.error_page import render_error_page

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_error_codes_is_up_to_date() -> None:
    assert (DOCS / "integrate" / "errors.md").read_text() == render_error_page(), "run make format"
