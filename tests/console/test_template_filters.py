"""How values look on every page."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from agentchat.console.shared.template_filters import FILTERS
from tests.console.pages import extract_text

_AT = datetime(2026, 11, 14, 12, 2, 7, 412_000, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("when", _AT, "14 Nov 10:02:07"),
        ("when", None, "\u2013"),
        ("short_id", "0192f0c1-7d10-7abc-8def-0000abcd1234", "abcd1234"),
        ("number", 1234567, "1,234,567"),
        ("number", None, "\u2013"),
        ("tokens", 812, "812"),
        ("tokens", 1234, "1.2k"),
        ("tokens", 999_990, "1.0M"),
        ("money", Decimal("0.0123"), "$0.012"),
        ("version", 12, "v12"),
        ("money", Decimal("1234.5"), "$1,234.50"),
        ("money", Decimal(0), "$0.00"),
        ("duration", 0.085, "85 ms"),
        ("duration", 4.13, "4.1 s"),
        ("duration", 125, "2 m 05 s"),
        ("duration", 7800, "2 h 10 m"),
        ("duration", 273_600, "3 d 4 h"),
    ],
)
def test_values_are_formatted_alike(name: str, value: Any, text: str) -> None:
    assert extract_text(str(FILTERS[name](value))) == text


@pytest.mark.parametrize("name", ["number", "tokens", "money"])
def test_a_zero_is_quiet(name: str) -> None:
    assert [str(FILTERS[name](value)).startswith('<span class="none">') for value in (0, 1)] == [True, False]


def test_a_time_has_its_exact_form_for_scripts_and_on_hover() -> None:
    assert 'datetime="2026-11-14T10:02:07.412Z"' in str(FILTERS["when"](_AT.astimezone(UTC)))


def test_a_long_text_folds_and_keeps_all_of_it() -> None:
    text = "\n".join(f"line {number}" for number in range(20))
    folded = str(FILTERS["folded"](text))
    assert folded.startswith("<details")
    assert "20 lines" in folded
    assert "line 19" in folded
    assert not str(FILTERS["folded"]("short")).startswith("<details")


def test_headings_of_a_text_are_below_those_of_the_page() -> None:
    assert str(FILTERS["markdown"]("# One\n\n###### Six")).count("<h3>") == 2


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "ms-msdt:/id", "//example.com", "/sign-out", "data:a"]
)
def test_links_of_a_text_lead_to_web_and_mail_addresses_alone(url: str) -> None:
    assert "href" not in str(FILTERS["markdown"](f"[here]({url}) <{url}>"))
    assert str(FILTERS["markdown"]("[a](https://a.example) <mailto:b@a.example>")).count("href") == 2


@pytest.mark.parametrize("name", ["short_id", "folded", "markdown"])
def test_a_text_is_never_markup(name: str) -> None:
    shown = str(FILTERS[name]("<script>alert(1)</script>" + '"' * 700))
    assert "<script" not in shown
    assert '"' * 3 not in shown


@pytest.mark.parametrize(("currency", "text"), [("€", "€1.20"), ("EUR", "EUR 1.20"), ("", "1.20")])
def test_a_currency_by_its_letters_stands_apart(currency: str, text: str) -> None:
    assert extract_text(str(FILTERS["money"](1.2, currency))) == text
