"""Markdown and HTML, read into the sections that are then cut into chunks."""

import time

import pytest

from agentchat.contracts.admin_errors import Invalid
from agentchat.knowledge.documents import Parsed, Section, parse

PAGE = """\
---
title: "Returns & exchanges"
url: https://shop.example/returns
draft: no
---
# Returns

We take things back.

## How **long** [it](https://x.example) takes {#long} ##

You have 30 days
after delivery.

- unused
  and clean
- in its box

Refunds
-------

| paid by | back to |
|---|---|
| card | card |
"""


def list_sections(text: str) -> list[tuple[tuple[str, ...], str]]:
    return [(section.path, section.text) for section in parse(text, "markdown").sections]


def test_headings_make_sections_and_front_matter_gives_title_and_url() -> None:
    parsed = parse(PAGE, "markdown")
    assert parsed.title == "Returns & exchanges"
    assert parsed.url == "https://shop.example/returns"
    assert parsed.sections == (
        Section(("Returns",), "We take things back."),
        Section(
            ("Returns", "How long it takes"),
            "You have 30 days after delivery.\n\n- unused and clean\n- in its box",
        ),
        Section(("Returns", "Refunds"), "| paid by | back to |\n|---|---|\n| card | card |"),
    )


def test_first_heading_is_the_title_without_front_matter() -> None:
    assert parse("## Small\n\n# Big\n\n# Other", "markdown").title == "Big"
    assert parse("Nothing\n\n## Small", "markdown").title is None


@pytest.mark.parametrize("url", ["javascript:alert(1)", "/returns", "http://", "https://a b", ""])
def test_a_url_that_callers_cannot_be_shown_is_none(url: str) -> None:
    assert parse(f"---\nurl: {url}\n---\ntext", "markdown").url is None


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_in_code_nothing_is_a_heading_and_lines_stay(fence: str) -> None:
    code = f"{fence}sh\n# install\nmake  all\n{fence}"
    assert list_sections(f"# Use\n\n{code}\nThen go\non.") == [(("Use",), f"{code}\nThen go on.")]


def test_comments_are_left_out() -> None:
    text = "Seen <!-- secret --> here.\n\n<!-- a note\nto authors\n--> And there."
    assert list_sections(text) == [((), "Seen  here.\n\n And there.")]


def test_a_heading_with_nothing_beneath_it_is_its_own_text() -> None:
    assert list_sections("# A\n## B\n### C\ntext\n## D\n# E") == [
        (("A", "B", "C"), "text"),
        (("A", "D"), "D"),
        (("E",), "E"),
    ]


def test_deeper_headings_end_with_the_one_above_them() -> None:
    assert list_sections("# A\na\n### C\nc\n## B\nb") == [(("A",), "a"), (("A", "C"), "c"), (("A", "B"), "b")]


def test_a_rule_a_list_and_hard_breaks_are_what_they_are() -> None:
    assert list_sections("one  \ntwo\\\nthree\n\n---\n\n1. a\n2. b") == [
        ((), "one\ntwo\\\nthree\n\n---\n\n1. a\n2. b")
    ]


def test_a_heading_longer_than_a_heading_is_a_paragraph() -> None:
    assert list_sections("# " + "word " * 60) == [((), " ".join(["word"] * 60))]


@pytest.mark.parametrize("text", ["", "\n \n", "---\n---", "#", "<!-- -->"])
def test_an_empty_document_has_no_section(text: str) -> None:
    assert parse(text, "markdown") == Parsed(None, None, ())


def test_blocks_are_those_of_commonmark() -> None:
    text = (
        "# A &amp; *B* `c`\n\n> # quoted\n\n- # listed\n\n"
        "Of two\nlines\n---\n\n**Bold** goes\n**on**.\n\n    # code\n"
    )
    assert list_sections(text) == [
        (("A & B c",), "> # quoted\n\n- # listed"),
        (("A & B c", "Of two lines"), "**Bold** goes **on**.\n\n    # code"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "- ",
            "- a\n",
            "> ",
            "> a\n",
            ">" * 90 + "\n",
            "[",
            "`",
            "# a\n",
            "# [a](\n",
            "a\n-\n",
            "a|b\n-|-\n",
        ),
        *("<!--", "<!--\n", "<!-- a -->\n", "--><!--", "> <!--\n", "1. a\n\n", "```\n", "\n"),
    ],
)
def test_hostile_markdown_costs_time_in_proportion(piece: str) -> None:
    began = time.process_time()
    parse(piece * (100_000 // len(piece)), "markdown")
    assert time.process_time() - began < 4.0  # the slowest, a list, takes 0.7 s


HTML = """<!doctype html><html><head>
<title>Returns | Shop</title><link rel="canonical" href="https://shop.example/returns?a=1&amp;b=2">
<style>p { color: red }</style><script>if (1 < 2) document.write("<p>no</p>")</script></head>
<body><nav><a href="/">Home</a> <a href="/cart">Cart</a></nav>
<h1>Returns &amp; <em>exchanges</em></h1>
<p>You have <b>30</b>   days.<br>No more.</p>
<h2 id=x>Refunds</h2>
<ul><li>card<li>PayPal</ul>
<table><tr><th>Way<th>Days</tr><tr><td>card<td>5</tr></table>
<pre>line 1
  line 2</pre>
<!-- <p>hidden</p> --></body></html>"""


def test_a_page_is_read_as_its_reader_sees_it() -> None:
    parsed = parse(HTML, "html")
    assert parsed.title == "Returns & exchanges"
    assert parsed.url == "https://shop.example/returns?a=1&b=2"
    assert parsed.sections == (
        Section(("Returns & exchanges",), "You have 30 days.\nNo more."),
        Section(
            ("Returns & exchanges", "Refunds"),
            "- card\n- PayPal\n\nWay | Days\ncard | 5\n\nline 1\n  line 2",
        ),
    )


def test_where_a_page_marks_its_main_content_only_that_is_kept() -> None:
    page = "<title>T</title><h1>Logo</h1><p>Buy!</p><main><h1>Pay</h1><p>By card.</p></main><p>Imprint</p>"
    parsed = parse(page, "html")
    assert parsed.title == "Pay"
    assert parsed.sections == ((Section(("Pay",), "By card."),))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("1 < 2 and I <3 you", "1 < 2 and I <3 you"),
        ("<p>a <b c", "a"),
        ("<p title='x > y'>a</p>", "a"),
        ("<p don't>a</p> isn't", "a\n\nisn't"),
        ("a<script>b", "a"),
        ("a<script>b</SCRIPT >c", "ac"),
        ("a<svg><text>b</text></svg>c", "ac"),
        ("a<!-- b", "a"),
        ("a<?php b ?>c<![CDATA[d]]>e", "ace"),
        ("a&#7;b&#x85;c", "a b\u2026c"),
        ("&lt;p&gt; &#8364; &#xffffffffffff; &nosuch; &#99999999999;", "<p> € \ufffd &nosuch; \ufffd"),
        ("x" + "&#" + "9" * 5000 + ";y", "x\ufffdy"),
        ("<h2>Open<p>text", "text"),
    ],
)
def test_what_is_not_well_formed_is_read_as_far_as_it_goes(text: str, seen: str) -> None:
    assert [section.text for section in parse(text, "html").sections] == [seen]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *("<a ", "<a b='", "<!--", "<a", "</", "<![CDATA[", "&#", "<a b=\"'", "<p>", "<script>", "<b><p>"),
        *("<a =", "<"),
    ],
)
def test_unfinished_marks_cost_time_in_proportion(piece: str) -> None:
    """The standard library's parser takes half a minute for 60 kB of some of these."""
    parse(piece * (150_000 // len(piece)), "html")


@pytest.mark.parametrize("piece", ["<section>", "<h1>", "<div>"])
def test_elements_that_are_nested_too_deep_are_refused(piece: str) -> None:
    with pytest.raises(Invalid, match="nests HTML elements more than 256 deep"):
        parse(piece * 50_000 + "text", "html")
    (section,) = parse(piece * 200 + "text", "html").sections
    assert section.text == "text"


@pytest.mark.slow
def test_combining_marks_cost_time_in_proportion() -> None:
    parse("a" + "\u0315\u0300" * 200_000, "text")
