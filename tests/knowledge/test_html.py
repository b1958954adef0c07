import pytest

from contracts.admin_errors import Invalid
from knowledge.documents import Section, parse

pytestmark = pytest.mark.requirement("RETRIEVAL")

PAGE = """<!doctype html><html><head>
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
    parsed = parse(PAGE, "html")
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


def test_without_a_heading_the_page_title_is_the_title() -> None:
    assert parse("<title> Pay\n here </title><p>By card.", "html").title == "Pay here"


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


@pytest.mark.parametrize(
    "piece",
    [
        *("<a ", "<a b='", "<!--", "<a", "</", "<![CDATA[", "&#", "<a b=\"'", "<p>", "<script>", "<b><p>"),
        *("<a =", "<"),
    ],
)
def test_unfinished_marks_cost_time_in_proportion(piece: str) -> None:
    """The standard library's parser takes half a minute for 60 kB of some of these."""
    parse(piece * (250_000 // len(piece)), "html")


@pytest.mark.parametrize("piece", ["<section>", "<h1>", "<div>"])
def test_elements_that_are_nested_too_deep_are_refused(piece: str) -> None:
    with pytest.raises(Invalid, match="nests HTML elements more than 256 deep"):
        parse(piece * 50_000 + "text", "html")
    (section,) = parse(piece * 200 + "text", "html").sections
    assert section.text == "text"


def test_combining_marks_cost_time_in_proportion() -> None:
    parse("a" + "\u0315\u0300" * 200_000, "text")
