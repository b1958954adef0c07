"""Documents are cut within bounds; no word is lost or torn."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agentchat.knowledge.documents import Kind, Section, cut_chunks, parse, tidy
from agentchat.knowledge.documents.chunks import ARROW, MOST, OVERLAP, split

KINDS = st.sampled_from(("text", "markdown", "html"))
WORDS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40)
PAUSES = st.sampled_from((" ", " ", " ", "\n", "\n\n", ". ", "! ", "\t"))
TEXTS = st.lists(st.tuples(WORDS, PAUSES), max_size=60).map(
    lambda pairs: "".join(word + pause for word, pause in pairs) * 6
)


@given(TEXTS)
def test_every_word_stands_whole_in_a_chunk_in_order(text: str) -> None:
    text = tidy(text)
    pieces = list(split(text))
    place = 0
    for piece in pieces:
        found = text.find(piece, max(0, place - OVERLAP))
        assert found >= 0, "a chunk is a part of its text"
        assert not text[place:found].strip(), "nothing is left out between two"
        place = found + len(piece)
    assert not text[place:].strip()
    assert set(text.split()) <= {word for piece in pieces for word in piece.split()}


@given(st.text(max_size=4000), KINDS)
@settings(max_examples=60)
def test_any_text_of_any_kind_is_cut_within_bounds_and_the_same_again(text: str, kind: Kind) -> None:
    chunks = cut_chunks("Title", parse(text, kind).sections)
    assert chunks == cut_chunks("Title", parse(text, kind).sections)
    assert [chunk.position for chunk in chunks] == list(range(1, len(chunks) + 1))
    for chunk in chunks:
        assert 1 <= len(chunk.text) <= MOST
        assert chunk.text.strip()
        assert "\0" not in chunk.text
        assert chunk.text.encode()


@given(st.lists(st.tuples(st.integers(1, 6), WORDS, TEXTS), max_size=5))
@settings(max_examples=30)
def test_markdown_loses_no_word_of_headings_and_paragraphs(parts: list[tuple[int, str, str]]) -> None:
    text = "\n\n".join(
        f"{'#' * level} {''.join(filter(str.isalnum, head))}\n\n{' '.join(filter(str.isalnum, body.split()))}"
        for level, head, body in parts
    )
    chunks = cut_chunks("Title", parse(text, "markdown").sections)
    kept = {word for chunk in chunks for word in f"{chunk.title} {chunk.text}".split()}
    assert {word for word in tidy(text).split() if word.isalnum()} <= kept


def test_a_chunk_carries_the_headings_above_it_and_the_title_once() -> None:
    sections = parse("# Returns\nintro\n## How long\n30 days", "markdown").sections
    assert [chunk.title for chunk in cut_chunks("Returns", sections)] == [
        "Returns",
        f"Returns{ARROW}How long",
    ]
    assert cut_chunks("Help", sections)[0].title == f"Help{ARROW}Returns"


def test_a_chunk_ends_with_a_paragraph_where_it_can() -> None:
    paragraphs = [f"Paragraph {number}. " + "It goes on and on. " * 20 for number in range(6)]
    pieces = list(split("\n\n".join(paragraphs)))
    assert len(pieces) > 1
    assert all(piece.startswith("Paragraph") and piece.endswith("on.") for piece in pieces)


def test_long_paragraph_is_cut_with_a_repeated_sentence() -> None:
    text = " ".join(f"This is sentence number {number} of a long paragraph." for number in range(60))
    pieces = list(split(text))
    assert all(piece.startswith("This") and piece.endswith("paragraph.") for piece in pieces)
    for one, other in pairwise(pieces):
        assert other.startswith(one[one.rindex("This") :])
    assert max(map(len, pieces)) - min(map(len, pieces)) < MOST / 4, "about equally long"


def test_an_endless_text_is_cut() -> None:
    pieces = list(split("\u0301" * 5000))
    assert "".join(pieces) == "\u0301" * 5000
    assert all(len(piece) <= MOST for piece in pieces)


def test_sentences_of_scripts_without_blanks_are_pauses_too() -> None:
    pieces = list(split("返品は三十日以内に承ります。" * 200))
    assert all(piece.endswith("。") for piece in pieces)


def test_sections_without_text_make_no_chunk() -> None:
    assert cut_chunks("Title", [Section(("A",), "")]) == []
