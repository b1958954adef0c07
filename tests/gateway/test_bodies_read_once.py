"""A body is read once; whatever it is, it counts and is refused as msgspec reads it."""

from collections.abc import Callable

import msgspec
import pytest

from gateway.http import strict_json
from gateway.http.problem_responses import Refusal

BODIES = [
    b'{"message": "caf\\u00e9 \\ud83d\\ude00 \\u0000 \\/", "prompt": null}',
    b'{"message": 1, "a": -0.5e+9, "b": true, "c": [1, "x", {"d": []}], "e": {}}',
    b' \t\r\n{"message" : "x" } \n',
    b'{"a": 1e999, "b": ' + b"9" * 5000 + b"}",
    *(b'{"message": %b}' % value for value in (b"NaN", b"-Infinity", b"01", b"1.", b".5", b"+1", b"-")),
    *(b'{"message": %b}' % value for value in (b"tru", b"'x'", b'"x', b'"\\q"', b'"a\tb"', b'["\\q"]')),
    *(b'{"message": %b}' % value for value in (b'"\\u12"', b'"\\u+123"', b'"\x7f"', b"[1,]", b"{1: 2}", b"")),
    *(b"[]", b"1", b'"x"', b"null", b"{", b"}", b"{}x", b'{"a": 1,}', b'{"a" 1}', b'\xef\xbb\xbf{"a": 1}'),
    *(b'{"a": 1}\x0b', b'{"a": 1}\x00', b"{/**/}"),
]


def _as_msgspec_reads(body: bytes) -> dict[str, object]:
    strict_json.check(body)
    found: dict[str, object] = {}
    for name, raw in strict_json.object_of(body).items():
        try:
            found[name] = msgspec.json.decode(raw, type=str | None)
        except msgspec.DecodeError:
            found[name] = 0
    return found


def _said(read: Callable[[bytes], dict[str, object]], body: bytes) -> object:
    try:
        members = read(body)
    except Refusal as refusal:
        return refusal.row.code, refusal.detail
    return {name: value if isinstance(value, str | None) else 0 for name, value in members.items()}


@pytest.mark.parametrize("body", BODIES)
def test_one_reading_says_what_two_say(body: bytes) -> None:
    assert _said(strict_json.members_of, body) == _said(_as_msgspec_reads, body)
