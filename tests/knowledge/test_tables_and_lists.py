"""Tables, lists, buttons and front matter as Word, browsers and editors write them."""

import pytest

from agentchat.knowledge.documents import parse


def read_html(body: str) -> str:
    return "\n".join(
        "\n".join(filter(None, [" > ".join(section.path) and f"# {' > '.join(section.path)}", section.text]))
        for section in parse(body, "html").sections
    )


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "<table><tr><td><p>Size</p></td><td><p>Price</p></td></tr>"
            "<tr><td><p>S</p></td><td><p>9</p></td></tr></table>",
            "Size | Price\nS | 9",
        ),
        ("<table>\n <tr>\n  <td>\n   <div>a</div>\n  </td>\n  <th><p>b</p></th> </tr>\n</table>", "a | b"),
        ("<table><tr><td><p>a</p><p>b</p></td><td>c<br>d</td></tr></table>", "a b | c d"),
        ("<table><tr><td><ul><li>a</li><li>b</li></ul></td><td>c</td></tr></table>", "- a - b | c"),
        ("<table><tr><td></td><td><p>b</p></td></tr><tr><td>c</td><td></td></tr></table>", "| b\nc |"),
        ("<table><tr><td><h2>H</h2><p>a</p></td><td><p>b</p></td></tr></table>", "# H\na\n\n| b"),
        ("<table><tr><td><p>one</p><p>two</p></td></tr></table>", "one\n\ntwo"),
        (
            "<p>x</p><table><tbody><tr><td><p>a</p></td><td>b</td></tr></tbody></table><p>y</p>",
            "x\n\na | b\n\ny",
        ),
        ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n- b"),
        ("<ul><li>a</li><li>b</li></ul><p>c</p>", "- a\n- b\n\nc"),
        ("<ol><li><div><p>a</p><p>b</p></div></li><li>c</li></ol>", "- a\nb\n- c"),
        ("<ul><li>a<ul><li>b</li><li><p>c</p></li></ul></li><li>d</li></ul>", "- a\n- b\n- c\n- d"),
        ("<ul>\n  <li>\n    <p>a</p>\n  </li>\n  <li>\n    b\n  </li>\n</ul>", "- a\n- b"),
        ("<ul><li><strong>a</strong> <p>b</p></li></ul>", "- a\nb"),
    ],
)
def test_tables_and_lists_keep_their_rows_and_dashes(body: str, text: str) -> None:
    assert read_html(body) == text


@pytest.mark.parametrize(
    "body",
    [
        "<h3><button>Can I return it?</button></h3><p>Yes.</p>",
        "<h3><button><span>Can I</span> return it?</button></h3><p>Yes.</p>",
        "<button><h3>Can I return it?</h3></button><p>Yes.</p>",
        "<button><svg><title>x</title></svg><h3>Can I return it?</h3></button><div>Yes.</div>",
        "<div><button type='button'><div><h3>Can I return it?</h3></div></button></div>Yes.",
    ],
)
def test_a_heading_in_a_button_is_a_heading(body: str) -> None:
    assert read_html(body) == "# Can I return it?\nYes."


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<button aria-expanded='false'>Can I return it?</button><p>Yes.</p>", "Can I return it?\n\nYes."),
        (
            "<button aria-controls='p1'>How long <b>is it</b>?</button><p>Long.</p>",
            "How long is it?\n\nLong.",
        ),
        ("<details><summary><button>Why?</button></summary><p>So.</p></details>", "Why?\n\nSo."),
        ("<p>Tent</p><button>Add to cart</button> <button aria-expanded='false'>Menu</button>", "Tent"),
    ],
)
def test_a_button_that_opens_an_answer_keeps_its_text(body: str, text: str) -> None:
    assert read_html(body) == text


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("---\ntitle: Pay\n---\nText", "Pay", "Text"),
        ("---\ntitle: >\n  Pay\n  later\nurl: https://a.example/\n---\nText", "Pay later", "Text"),
        ("---\ntitle: |\n  Pay\n  later\n---\nText", "Pay later", "Text"),
        ("---\ntitle: >-\n  Pay\n---\nText", "Pay", "Text"),
        ("---\ntitle: 'It''s: new'\n---\nText", "It's: new", "Text"),
        ('---\n# note\n"title": "Pay"\ntags: [a, b]\nx:\n  - y\n---\nText', "Pay", "Text"),
        ("---\ntitle: Pay: later\n---\nText", "Pay: later", "Text"),
        ("---\ntitle: 2026\n...\nText", "2026", "Text"),
        ("---\ntitle: @home\nx: 1\n---\nText", "@home", "Text"),
        ("---\n---\nText", None, "Text"),
        ("---\nHello world.\n---\nText", None, "Hello world. Text"),
        ("---\n\nHello: world.\n\n---\nText", None, "---\n\nHello: world.\n\n---\nText"),
        ("---\nNote: this.\n\nMore prose here.\n---\nText", None, "Note: this. More prose here. Text"),
        ("---\n- a\n- b\n---\nText", None, "---\n- a\n- b\n---\nText"),
        ("---\n# Returns\n\nText\n\n---\nMore", None, "Returns Text More"),
        ("---\nText", None, "---\nText"),
        ("---", None, "---"),
    ],
)
def test_front_matter_is_a_mapping_and_a_rule_is_none(text: str, title: str | None, body: str) -> None:
    parsed = parse(text, "markdown")
    if title is not None:
        assert parsed.title == title
    shown = "\n".join("\n".join([*section.path, section.text]) for section in parsed.sections)
    assert shown.replace("---", " ").split() == body.replace("---", " ").split()
