"""What is printed for good while a reply is still being written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from ops.chat.writing import Block, settled
from ops.output import clean, compact, one_line, pretty

_LINES = (
    "words", "- item", "  more", "1. first", "# Heading", "===", "---", "```", "~~~", "    code", "> quoted",
    "| a | b |", "|---|---|", "| 1 | 2 |", "", "", "[x]: http://shop.example", "* other", "#", "<b>", "1.",
)  # fmt: skip


@given(st.lists(st.sampled_from(_LINES), max_size=14), st.integers(0, 200))
def test_what_is_settled_stays_as_it_is_whatever_follows(lines: list[str], cut: int) -> None:
    text = "\n".join(lines)
    beginning = text[:cut]
    length = settled(beginning, {})
    parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    starts = {token.map[0] for token in parsed if token.map and token.level == 0}
    assert length == 0 or text[:length].count("\n") in starts
    assert length == 0 or text[length - 1] == "\n"


def test_all_but_the_last_block_is_settled() -> None:
    text = "One.\n\n- a\n- b\n\n```\nx\n\ny\n```\n\nLast"
    assert text[settled(text, {}) :] == "```\nx\n\ny\n```\n\nLast"
    assert text[settled(text + "\n", {}) :] == "Last"


def test_html_links_and_entities_show_what_they_are() -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(Block("<b>bold</b> [shop](http://other.example) &#27;[31m &#x9b;2J", {}))
    assert captured.get() == "<b>bold</b> shop (http://other.example) \ufffd[31m \ufffd2J\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "<https://x.example/%1B]0;owned%07>",
            "https://x.example/␛]0;owned␇ (https://x.example/%1B%5D0;owned%07)",
        ),
        ("<https://x.example/%1B[2J>", "https://x.example/␛[2J (https://x.example/%1B%5B2J)"),
        ("<https://x.example/%C2%9B31m>", "https://x.example/\ufffd31m (https://x.example/%C2%9B31m)"),
        ("<mailto:a%1b@b.c>", "mailto:a␛@b.c (mailto:a%1b@b.c)"),
        ("&#x202E;cba &#8295;d", "cba d"),
        (
            "- <https://x.example/%1B%1B%1B%1B%1B>",
            " • https://x.example/␛␛␛␛␛ (https://x.example/%1B%1B%1B%1B%1B)",
        ),
    ],
)
def test_what_an_address_or_an_entity_stands_for_drives_no_terminal(text: str, shown: str) -> None:
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(Block(clean(text), {}))
    assert captured.get() == f"{shown}\n"


def test_a_link_may_be_defined_in_an_earlier_block() -> None:
    console = Console(width=80, color_system=None)
    references: dict[str, object] = {}
    with console.capture() as captured:
        console.print(Block("[a]: http://a.example\n", references))
        console.print(Block("See [a].", references))
    assert captured.get() == "See a (http://a.example).\n"


def test_control_characters_become_symbols() -> None:
    every = "".join(map(chr, range(0x110000 // 16)))
    assert not [
        text for text in clean(every) if text not in "\n\t" and (text < " " or "\x7f" <= text <= "\x9f")
    ]
    assert clean("a\x1b]0;title\x07b\r\nc\x9b2J\u202ed") == "a␛]0;title␇b\nc\ufffd2Jd"
    assert one_line("a\x1b[2J\n b", 6) == "a␛[2J…"
    assert compact({"id": "x\x1b", "n": [1]}, 80) == 'id="x\\u001b", n=[1]'
    assert pretty('{"a": "\\u001b[2J\\u009b"}') == '{\n  "a": "\\u001b[2J\ufffd"\n}'
    assert pretty("\x1b no JSON") == "␛ no JSON"
