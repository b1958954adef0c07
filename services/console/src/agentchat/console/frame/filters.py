"""Filters of the templates: how times, ids, numbers, tokens, money and long texts look on every page."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from markupsafe import Markup

from agentchat.conversations.queries.search_query import Snippet

NONE = Markup('<span class="none">&ndash;</span>')
_ID_CHARACTERS = 8
_FOLD_LINES, _FOLD_CHARACTERS = 6, 600
_MOST_MARKDOWN = 20_000
_HEADING = "h3"
_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """The library refuses schemes that run scripts; others open programs of the reader's machine."""
        return _LINKS.match(url) is not None


_MARKDOWN = _Markdown("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def when(at: datetime | str | None) -> Markup:
    """A time, or its ISO 8601 text: UTC; a script makes it relative, in the reader's zone, with the exact one
    on hover.
    """
    if at is None:
        return NONE
    exact = (datetime.fromisoformat(at) if isinstance(at, str) else at).astimezone(UTC)
    stamp = exact.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}">{} UTC</time>').format(
        stamp, stamp, exact.strftime("%d %b %H:%M:%S")
    )


def short_id(value: object, kind: str = "id") -> Markup:
    """Its last eight characters, which differ where those of one time begin alike, and a button that copies
    all of it.
    """
    text = str(value)
    return Markup(
        '<span class="id" title="{0}"><code>{1}</code>'
        '<button type="button" class="copy" data-copy="{0}" aria-label="Copy {2}"></button></span>'
    ).format(text, text[-_ID_CHARACTERS:], kind)


def number(value: float | None, digits: int = 0) -> Markup:
    """With thousands separated."""
    return NONE if value is None else Markup("{}").format(f"{value:,.{digits}f}")


def tokens(value: int | None) -> Markup:
    """A count that is read at a glance: 812, 1.2k, 3.4M; the exact one on hover."""
    if value is None:
        return NONE
    if value < 1000:
        return Markup("{}").format(value)
    short = f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.1f}M"
    return Markup('<span title="{}">{}</span>').format(f"{value:,}", short)


def money(value: Decimal | float | None, currency: str = "$") -> Markup:
    """At least two digits of what is small."""
    if value is None:
        return NONE
    amount = Decimal(str(value))
    digits = 2 if not amount or abs(amount) >= 1 else min(6, 1 - amount.adjusted())
    sign = f"{currency} " if currency.isalpha() else currency
    return Markup("{}").format(f"{sign}{amount:,.{digits}f}")


def duration(seconds: float | None) -> Markup:
    """`85 ms`, `4.1 s`, `2 m 05 s`, `2 h 10 m`, `3 d 4 h`."""
    if seconds is None:
        return NONE
    return Markup("{}").format(_duration(seconds))


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} m"
    return f"{hours // 24} d {hours % 24} h"


def folded(text: str) -> Markup:
    """A text as it is, its lines kept; a long one folds, and opens without a script."""
    lines = text.split("\n")
    if len(lines) <= _FOLD_LINES and len(text) <= _FOLD_CHARACTERS:
        return Markup('<div class="text">{}</div>').format(text)
    head = "\n".join(lines[:_FOLD_LINES])[:_FOLD_CHARACTERS]
    return Markup(
        '<details class="text fold"><summary><span class="head">{}…</span>'
        '<span class="more">{} lines, {} characters</span></summary>{}</details>'
    ).format(head, f"{len(lines):,}", f"{len(text):,}", text)


def json_text(value: Any) -> str:
    """A value as JSON that people read."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def output_text(output: str) -> str:
    """What a tool has given: its JSON as people read it."""
    try:
        return msgspec.json.format(output)
    except msgspec.DecodeError:
        return output


def marked(snippet: Snippet) -> Markup:
    """A part of a text with what was found in it."""
    shown, at = Markup(""), 0
    for first, last in snippet.marks:
        shown += Markup("{}<mark>{}</mark>").format(snippet.text[at:first], snippet.text[first:last])
        at = last
    return Markup("<bdi>{}{}</bdi>").format(shown, snippet.text[at:])


def markdown(text: str) -> Markup:
    """Markdown of a model as HTML that loads nothing: HTML in it is text, an image is a link, and links go to
    web and mail addresses alone. Its headings are below those of the page. What is long is shown as it is.
    """
    if len(text) > _MOST_MARKDOWN:
        return folded(text)
    found = _MARKDOWN.parse(text)
    for token in found:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADING
    html = Markup(_MARKDOWN.renderer.render(found, _MARKDOWN.options, {}))  # noqa: S704 - the renderer escapes
    return Markup('<div class="markdown" dir="auto">{}</div>').format(html)


def version(number: int) -> str:
    """Such as `v12`."""
    return f"v{number}"


FILTERS: dict[str, Callable[..., Any]] = {
    "when": when,
    "short_id": short_id,
    "number": number,
    "tokens": tokens,
    "money": money,
    "duration": duration,
    "folded": folded,
    "json_text": json_text,
    "output_text": output_text,
    "marked": marked,
    "markdown": markdown,
    "version": version,
}
