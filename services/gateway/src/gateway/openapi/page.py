"""The document for people: one plain HTML page, complete in itself: no scripts, nothing from elsewhere."""

import json
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from contracts import errors

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
body{color:#1b1f24;background:#fff}
code,pre{font:14px/1.45 ui-monospace,monospace}
pre{background:#f4f5f7;padding:.7rem;overflow:auto;border-radius:4px;white-space:pre-wrap;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
td,th{padding:.25rem .8rem .25rem 0;vertical-align:top;text-align:left;border-bottom:1px solid #e3e6ea}
section{border-top:2px solid #e3e6ea;margin-top:2rem}
summary{cursor:pointer}h3 code{font-size:1em}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#dde1e6}pre{background:#22272e}
td,th,section{border-color:#373e47}a{color:#7ab7ff}}
"""

HEADERS = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""With these a browser runs and fetches nothing for the page, whatever should ever stand in it."""

Json = Mapping[str, Any]


def page(described: Json) -> bytes:
    """The page of this document, UTF-8."""
    info = described["info"]
    title = escape(info["title"])
    by_tag = {tag["name"]: [*_operations_of(described, tag["name"])] for tag in described["tags"]}
    contents = "".join(
        f'<li><a href="#{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></a> '
        f"{escape(operation['summary'])}</li>"
        for operations in by_tag.values()
        for method, path, operation in operations
    )
    sections = "".join(
        f"<section><h2>{escape(tag['name'].capitalize())}</h2><p>{escape(tag['description'])}</p>"
        + "".join(_operation(described, *each) for each in by_tag[tag["name"]])
        + "</section>"
        for tag in described["tags"]
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{_STYLE}</style><h1>{title}</h1>{_paragraphs(info['description'])}"
        '<p>This page as a document for tools: <a href="/openapi.json">openapi.json</a>.</p>'
        f"<ul>{contents}</ul>{sections}"
        f"<section><h2>Error codes</h2>{_codes()}</section>"
        f"<section><h2>Types</h2>{_types(described['components']['schemas'])}</section></html>"
    ).encode()


def _operations_of(described: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            if tag in operation.get("tags", ()):
                yield method, path, operation


def _operation(described: Json, method: str, path: str, operation: Json) -> str:
    security = operation.get("security", described["security"])
    schemes = [described["components"]["securitySchemes"][name] for each in security for name in each]
    needs = " or ".join(_scheme(scheme) for scheme in schemes) or "no key"
    body = operation.get("requestBody")
    return (
        f'<h3 id="{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></h3>'
        f"<p>{escape(operation['summary'])} {escape(operation.get('description', ''))} Needs {needs}.</p>"
        + _parameters(operation.get("parameters", ()))
        + (f"<h4>Body</h4><p>{escape(body.get('description', ''))}</p>{_content(body)}" if body else "")
        + f"<h4>Answers</h4>{''.join(_answer(*each) for each in operation['responses'].items())}"
    )


def _scheme(scheme: Json) -> str:
    return (
        f"<code>{escape(scheme['name'])}</code>" if "name" in scheme else "<code>Authorization: Bearer</code>"
    )


def _parameters(parameters: Iterable[Json]) -> str:
    rows = [
        (
            f"<code>{escape(each['name'])}</code>",
            each["in"] + (", required" if each.get("required") else ""),
            _kind(each["schema"]),
            escape(each.get("description", "")),
        )
        for each in parameters
    ]
    return f"<h4>Parameters</h4>{_table(rows)}" if rows else ""


def _answer(status: str, answer: Json) -> str:
    headers = [
        (
            f"<code>{escape(name)}</code>",
            "always" if header.get("required") else "at times",
            escape(header.get("description", "")),
        )
        for name, header in answer.get("headers", {}).items()
    ]
    return (
        f"<details{' open' if status < '300' else ''}>"
        f"<summary><b>{status}</b> {escape(answer['description'])}</summary>"
        f"{_table(headers)}{_content(answer)}</details>"
    )


def _content(holder: Json) -> str:
    parts = []
    for media_type, content in holder.get("content", {}).items():
        parts.append(f"<p><code>{escape(media_type)}</code>: {_kind(content['schema'])}</p>")
        single = {"example": {"value": content["example"]}} if "example" in content else {}
        for name, example in content.get("examples", single).items():
            value = example["value"]
            text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
            said = example.get("summary", name)
            parts.append(f"<details><summary>{escape(said)}</summary><pre>{escape(text)}</pre></details>")
    return "".join(parts)


def _kind(schema: Json) -> str:
    """A schema in a few words, with a link to the type that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#type-{name}">{name}</a>'
    for way in ("anyOf", "oneOf", "allOf"):
        if way in schema:
            return " or ".join(_kind(each) for each in schema[way])
    if "enum" in schema and len(schema["enum"]) <= 6:
        return " or ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    kinds = schema.get("type", "anything")
    words = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if "items" in schema:
        words = f"array of {_kind(schema['items'])}"
    elif isinstance(schema.get("properties"), dict):
        words += " of " + ", ".join(
            f"<code>{escape(name)}</code>: {_kind(each)}" for name, each in schema["properties"].items()
        )
    if "contentSchema" in schema:
        words += f" of JSON: {_kind(schema['contentSchema'])}"
    bounds = [str(schema["format"])] if "format" in schema else []
    for word, name in (
        ("from", "minimum"),
        ("to", "maximum"),
        ("at least", "minLength"),
        ("at most", "maxLength"),
        ("default", "default"),
    ):
        if schema.get(name) is not None:
            bounds.append(f"{word} {escape(json.dumps(schema[name]))}")
    return f"{words} ({', '.join(bounds)})" if bounds else words


def _types(schemas: Mapping[str, Json]) -> str:
    parts = []
    for name, schema in schemas.items():
        required = schema.get("required", ())
        rows = [
            (
                f"<code>{escape(field)}</code>",
                "always" if field in required else "optional",
                _kind(each),
                escape(each.get("description", "")),
            )
            for field, each in schema.get("properties", {}).items()
        ]
        about = _paragraphs(schema.get("description", ""))
        inside = _table(rows) if rows else f"<p>{_kind(schema)}</p>"
        parts.append(f'<h3 id="type-{escape(name)}">{escape(name)}</h3>{about}{inside}')
    return "".join(parts)


def _codes() -> str:
    return _table(
        (str(row.status), f"<code>{row.code}</code>", escape(row.title), escape(row.advice))
        for row in errors.ERRORS.values()
    )


def _table(rows: Iterable[Iterable[str]]) -> str:
    lines = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{lines}</table>" if lines else ""


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(each)}</p>" for each in text.split("\n\n") if each)
