"""The patterns of JSON Schema, which are regular expressions of ECMA 262, as Python's `re` reads them.

What differs is rewritten: `$` is the end alone, where Python's is also before a last newline; `\\d`, `\\w`
and `\\b` are of ASCII; `\\s` and `.` know other characters; a group's name and `\\u{…}` look different.
What only Python has (`(?i)`, `\\A`, `\\Z`) is left: schemas that were accepted with it keep working.
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
_INSIDE = {r"\s": _SPACES, "[": r"\["}  # Python warns of a bracket that it may read as a set one day
_OF_FLAGS = {"m": "$", "s": "."}
"""What another meaning is wanted of by a flag of Python's."""

_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")
_PART = re.compile(r"\\u\{[0-9a-fA-F]{1,6}\}|\\k<[^>]*>|\\c[A-Za-z]|\\.|\[\^?\]|\(\?<(?![=!])|.", re.DOTALL)
_INSIDE_PART = re.compile(r"\\u\{[0-9a-fA-F]{1,6}\}|\\c[A-Za-z]|\\.|.", re.DOTALL)
_OF_ASCII = re.compile(r"\\[dDwWbB]")

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"}) | frozenset(
    {"dependentSchemas", "dependencies"}
)
_DATA = frozenset({"const", "enum", "default", "examples"})


def python_pattern(pattern: str) -> str:
    """The pattern for `re.search`; of one that is none, something that is none either."""
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
    """An escape that Python writes otherwise."""
    if part.startswith(r"\u{"):
        number = int(part[3:-1], 16)
        return f"\\U{number:08x}"
    if part.startswith(r"\k<"):
        return f"(?P={part[3:-1]})"
    if part.startswith(r"\c") and len(part) == 3:
        return f"\\x{ord(part[2]) % 32:02x}"
    return part


def python_schema(schema: Any, originals: dict[str, str]) -> Any:
    """A schema with its patterns for Python. `originals` gets what each of them was.

    Where a reference leads through a name in `patternProperties`, these names stay: it would lead nowhere.
    """
    return _rewritten(schema, originals, names=not _refers_to_names(schema))


def _rewritten(schema: Any, originals: dict[str, str], *, names: bool) -> Any:
    if isinstance(schema, list):
        return [_rewritten(each, originals, names=names) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "pattern" and isinstance(value, str):
            changed[keyword] = python_pattern(value)
            originals[changed[keyword]] = value
        elif keyword in _MAPS and isinstance(value, dict):
            named = names and keyword == "patternProperties"
            changed[keyword] = {
                python_pattern(name) if named else name: _rewritten(each, originals, names=names)
                for name, each in value.items()
            }
        elif keyword in _DATA:
            changed[keyword] = value
        else:
            changed[keyword] = _rewritten(value, originals, names=names)
    return changed


def _refers_to_names(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_refers_to_names, schema))
    if not isinstance(schema, dict):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str) and "/patternProperties/" in reference:
        return True
    return any(map(_refers_to_names, schema.values()))
