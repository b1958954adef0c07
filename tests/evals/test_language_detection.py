"""The language of a text, and of what a user wrote."""

from collections import Counter
from pathlib import Path

import pytest

from agentchat.evals.language_detection import UNDETERMINED, are_same, detect_language


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
        ("Nike Air Max", UNDETERMINED),
        ("https://shop.example/a", UNDETERMINED),
    ],
)
def test_the_language_of_a_text_is_found_where_it_has_one(text: str, language: str) -> None:
    assert detect_language(text) == language


def test_short_questions_have_their_language_and_seldom_another_one() -> None:
    """Of ten each in ten languages; another one is worse than none, since it makes a slice of its own."""
    found = Counter[str]()
    for line in (Path(__file__).parent / "short_questions.txt").read_text().splitlines():
        language, _, text = line.partition(" ")
        code = detect_language(text)
        found["right" if code == language else "none" if code == UNDETERMINED else "wrong"] += 1
    assert found["right"] >= 70, found
    assert found["wrong"] <= 2, found


def test_languages_that_sentences_do_not_tell_apart_count_as_the_same() -> None:
    assert are_same("da", "no")
    assert not are_same("da", "de")
    assert not are_same("hr", "no")
