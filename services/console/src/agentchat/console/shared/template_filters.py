"""Format times, ids, numbers, tokens, money and long texts for all templates."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from markdown_it import MarkdownIt
from markupsafe import Markup

from agentchat.contracts.text_checks import format_count, format_duration
from agentchat.conversations.queries.search_query import Snippet
from agentchat.conversations.queries.sorted_list import RowCount

NONE = Markup('<span class="none">&ndash;</span>')
_ID_CHARACTERS = 8
_FOLD_LINES, _FOLD_CHARACTERS = 6, 600
_MOST_MARKDOWN = 20_000
_HEADING = "h3"
_LINKS = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """Return True for web and mail links only; other schemes may open programs."""
        return _LINKS.match(url) is not None


_MARKDOWN = _Markdown("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def format_time(at: datetime | str | None, form: str = "") -> Markup:
    """Format a time or its ISO 8601 text in UTC. The page names the zone once.

    `times.js` shows it in the reader's zone, and with how long ago it was unless `form` is "clock".
    """
    if at is None:
        return NONE
    exact = (datetime.fromisoformat(at) if isinstance(at, str) else at).astimezone(UTC)
    stamp = exact.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}" class="{}">{}</time>').format(
        stamp, stamp, form, exact.strftime("%d %b %H:%M:%S")
    )


def format_id(value: object, kind: str = "id") -> Markup:
    """Show the last eight characters of an id and a button that copies it.

    Ids made at the same time have the same first characters.
    """
    text = str(value)
    return Markup(
        '<span class="id" title="{0}"><code>{1}</code>'
        '<button type="button" class="copy" data-copy="{0}" aria-label="Copy {2}"></button></span>'
    ).format(text, text[-_ID_CHARACTERS:], kind)


def format_number(value: float | None, digits: int = 0) -> Markup:
    """Format a number with thousands separators. Zero is shown in a quiet colour."""
    return NONE if value is None else _mark_zero(value, f"{value:,.{digits}f}")


def format_total(total: RowCount) -> Markup:
    """Format a number of rows, with a plus sign if there are more."""
    return Markup("{}{}").format(f"{total.count:,}", "" if total.is_exact else "+")


def format_tokens(value: int | None) -> Markup:
    """Format a count as 812, 1.2k or 3.4M, with the exact number on hover."""
    if value is None:
        return NONE
    if value < 1000:
        return _mark_zero(value, str(value))
    short = f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.1f}M"
    return Markup('<span title="{}">{}</span>').format(f"{value:,}", short)


def format_money(value: Decimal | float | None, currency: str = "$") -> Markup:
    """Format an amount with two decimals, or two significant digits if it is below 1."""
    if value is None:
        return NONE
    amount = Decimal(str(value))
    digits = 2 if not amount or abs(amount) >= 1 else min(6, 1 - amount.adjusted())
    sign = f"{currency} " if currency.isalpha() else currency
    return _mark_zero(amount, f"{sign}{amount:,.{digits}f}")


def _mark_zero(value: Decimal | float, text: str) -> Markup:
    return Markup("{}").format(text) if value else Markup('<span class="none">{}</span>').format(text)


def format_time_taken(seconds: float | None) -> Markup:
    """Format seconds with the units that fit them."""
    return NONE if seconds is None else Markup("{}").format(format_duration(seconds))


def fold_text(text: str) -> Markup:
    """Show a text with its line breaks. A long text is folded, and unfolds without a script."""
    lines = text.split("\n")
    if len(lines) <= _FOLD_LINES and len(text) <= _FOLD_CHARACTERS:
        return Markup('<div class="text">{}</div>').format(text)
    head = "\n".join(lines[:_FOLD_LINES])[:_FOLD_CHARACTERS]
    return Markup(
        '<details class="text fold"><summary><span class="head">{}…</span>'
        '<span class="more">{} lines, {} characters</span></summary>{}</details>'
    ).format(head, f"{len(lines):,}", f"{len(text):,}", text)


def format_json(value: Any) -> str:
    """Format a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def format_output(output: str) -> str:
    """Indent the output of a tool if it is JSON."""
    try:
        return msgspec.json.format(output)
    except msgspec.DecodeError:
        return output


def mark_matches(snippet: Snippet) -> Markup:
    """Mark the matches in a snippet."""
    shown, at = Markup(""), 0
    for first, last in snippet.marks:
        shown += Markup("{}<mark>{}</mark>").format(snippet.text[at:first], snippet.text[first:last])
        at = last
    return Markup("<bdi>{}{}</bdi>").format(shown, snippet.text[at:])


def render_markdown(text: str) -> Markup:
    """Render a model's Markdown as HTML that loads nothing.

    HTML in it is shown as text, an image as a link; only web and mail links are kept. Headings become smaller
    than those of the page. Long texts are shown without formatting.
    """
    if len(text) > _MOST_MARKDOWN:
        return fold_text(text)
    found = _MARKDOWN.parse(text)
    for token in found:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADING
    html = Markup(_MARKDOWN.renderer.render(found, _MARKDOWN.options, {}))  # noqa: S704 - the renderer escapes
    return Markup('<div class="markdown" dir="auto">{}</div>').format(html)


def format_version(number: int) -> str:
    """Format a version as `v12`."""
    return f"v{number}"


FILTERS: dict[str, Callable[..., Any]] = {
    "when": format_time,
    "short_id": format_id,
    "number": format_number,
    "counted": format_count,
    "total": format_total,
    "tokens": format_tokens,
    "money": format_money,
    "duration": format_time_taken,
    "folded": fold_text,
    "json_text": format_json,
    "output_text": format_output,
    "marked": mark_matches,
    "markdown": render_markdown,
    "version": format_version,
}
