"""The language of a text."""

import pytest

from evals.language import UNDETERMINED, are_same, language_of

pytestmark = pytest.mark.requirement("EVAL-JUDGING")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Your order ORD-1001 was shipped.", "en"),
        ("Ihre Bestellung ORD-1001 wurde gestern versandt.", "de"),
        ("La commande a été expédiée hier.", "fr"),
        ("El pedido fue enviado ayer por la tarde.", "es"),
        ("Zamówienie zostało wysłane", "pl"),
        ("私の注文はどこですか", "ja"),
        ("OK", UNDETERMINED),
        ("ORD-1001: 24.00", UNDETERMINED),
        ('{"status": "ok"}', UNDETERMINED),
        ("", UNDETERMINED),
        ("🎁" * 100_000, UNDETERMINED),
    ],
)
def test_the_language_of_a_text_is_found_where_it_has_one(text: str, language: str) -> None:
    assert language_of(text) == language


def test_languages_that_sentences_do_not_tell_apart_count_as_the_same() -> None:
    assert are_same("da", "no")
    assert not are_same("da", "de")
    assert not are_same("hr", "no")
