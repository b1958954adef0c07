r"""Translate the patterns of JSON Schema, which are ECMA 262 regular expressions, for Python's `re`.

The differences: `$` is only the very end, where Python's also matches before a last newline; `\d`, `\w` and
`\b` are ASCII; `\s` and `.` know other characters; named groups and `\u{…}` are written differently. Syntax
that only Python has (`(?i)`, `\A`, `\Z`) stays, so that schemas that were accepted with it keep working.
"""

import re
from typing import Any

_SPACES = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_OUTSIDE = {
    r"\s": f"[{_SPACES}]",
    r"\S": f"[^{_SPACES}]",
    ".": r"[^\n\r\u2028\u2029]",
    "$": r"\Z",
    "[]": "(?!)",
    "[^]": r"[\s\S]",
    "(?<": "(?P<",
}
_INSIDE = {r"\s": _SPACES, "[": r"\["}  # Python warns of a bare bracket, which may mean a nested set one day
_OF_FLAGS = {"m": "$", "s": "."}
"""The Python flags that ask for another meaning of a part, which then stays as it is."""

_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_PART = re.compile(r"\\u\{[0-9a-fA-F]{1,6}\}|\\k<[^>]*>|\\c[A-Za-z]|\\.|\[\^?\]|\(\?<(?![=!])|.", re.DOTALL)
_INSIDE_PART = re.compile(r"\\u\{[0-9a-fA-F]{1,6}\}|\\c[A-Za-z]|\\.|.", re.DOTALL)
_OF_ASCII = re.compile(r"\\[dDwWbB]")

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"}) | frozenset(
    {"dependentSchemas", "dependencies"}
)
_DATA = frozenset({"const", "enum", "default", "examples"})


def translate_pattern(pattern: str) -> str:
    """Return the pattern for `re.search`. An invalid pattern stays invalid."""
    own = _FLAGS.match(pattern)
    flags = own[1] if own else ""
    kept = {_OF_FLAGS[flag] for flag in flags if flag in _OF_FLAGS}
    place = own.end() if own else 0
    written: list[str] = []
    inside = False
    while found := (_INSIDE_PART if inside else _PART).match(pattern, place):
        part, place = found[0], found.end()
        rewritten = (_INSIDE if inside else _OUTSIDE).get(part, part)
        written.append(part if part in kept else _escape(rewritten))
        inside = part == "[" or (inside and part != "]")
    text = "".join(written)
    scoped = "".join(sorted(set(flags) - set("auL") | set("a" if _OF_ASCII.search(text) else "")))
    return f"(?{scoped}:{text})" if scoped else text


def _escape(part: str) -> str:
    """Return an escape in Python's notation."""
    if part.startswith(r"\u{"):
        number = int(part[3:-1], 16)
        return f"\\U{number:08x}"
    if part.startswith(r"\k<"):
        return f"(?P={part[3:-1]})"
    if part.startswith(r"\c") and len(part) == 3:
        return f"\\x{ord(part[2]) % 32:02x}"
    return part


def translate_schema(schema: Any, originals: dict[str, str]) -> Any:
    """Return a schema with its patterns translated; add to `originals` each translated pattern's original.

    If a reference leads through a name in `patternProperties`, these names stay, or it would lead nowhere.
    """
    return _translate(schema, originals, names=not _has_reference_to_pattern(schema))


def _translate(schema: Any, originals: dict[str, str], *, names: bool) -> Any:
    if isinstance(schema, list):
        return [_translate(each, originals, names=names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "pattern" and isinstance(value, str):
            changed[keyword] = translate_pattern(value)
            originals[changed[keyword]] = value
        elif keyword in _MAPS and isinstance(value, dict):
            named = names and keyword == "patternProperties"
            changed[keyword] = {
                translate_pattern(name) if named else name: _translate(each, originals, names=names)
                for name, each in value.items()
            }
        elif keyword in _DATA:
            changed[keyword] = value
        else:
            changed[keyword] = _translate(value, originals, names=names)
    return changed


def _has_reference_to_pattern(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_has_reference_to_pattern, schema))
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str) and "/patternProperties/" in reference:
        return True
    return any(map(_has_reference_to_pattern, schema.values()))
