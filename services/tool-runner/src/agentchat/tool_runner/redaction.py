"""Strike out credentials that a tool server repeats, in the bytes of its responses: the one place for it.

Only headers whose names say that they are credentials count: others may hold words that responses need.
"""

import json
import re
from collections.abc import Iterator, Mapping

STRUCK = "[hidden]"
_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|password|credential|session", re.IGNORECASE)
_SCHEME = re.compile(r"([\w.+-]+)\s+(?=\S)")
# A parameter or a cookie: its value is a secret and its name is not (RFC 9110 11.2, RFC 6265 4.1).
_VALUE = re.compile(r'\s*(?:[^\s;,="]+\s*=\s*)?("(?:\\.|[^"\\])*"|[^;,]*)')
_SHORTEST = 8


class Redactor:
    """Replace the credentials of a request in its response, which arrives in pieces.

    A piece that ends within what may be a credential is held back from there until the next one.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        forms = {form for secret in _secrets(headers) for form in _forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._first_bytes = {form[0] for form in forms}
        self._held = b""

    def strike(self, piece: bytes) -> bytes:
        """Return the response as far as it is decided; the rest comes with the next piece, or as `rest`."""
        if not self._forms:
            return piece
        text = self._held + piece
        for form in self._forms:
            if form in text:
                text = text.replace(form, _replacement(form))
        begun = self._begun_at(text)
        self._held = text[begun:]
        return text[:begun]

    @property
    def rest(self) -> bytes:
        """The bytes that are held back when the response ends."""
        return self._held

    def _begun_at(self, text: bytes) -> int:
        """Return where a credential may have begun that is cut by the end of `text`."""
        for place in range(max(0, len(text) - len(self._forms[0]) + 1), len(text)):
            if text[place] in self._first_bytes and any(f.startswith(text[place:]) for f in self._forms):
                return place
        return len(text)


def _secrets(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the credentials as they are sent, and their secret parts."""
    for name, value in headers.items():
        if _CREDENTIAL.search(name):
            yield from (part for part in _parts(value.strip()) if len(part) >= _SHORTEST)


def _parts(value: str) -> Iterator[str]:
    yield value
    if scheme := _SCHEME.match(value):
        value = value[scheme.end() :]
        yield value
        yield value.rstrip("=")  # base64 is repeated without its padding too
    for match in _VALUE.finditer(value):
        yield match[1].strip().strip('"')


def _forms(secret: str) -> Iterator[bytes]:
    """Yield `secret` as it is and as JSON encoders write it."""
    yield secret.encode()
    escaped = json.dumps(secret)[1:-1]
    yield escaped.encode()
    yield escaped.replace("/", "\\/").encode()


def _replacement(form: bytes) -> bytes:
    """Return what takes the place of a credential; one that is a number stays one, as JSON may need that."""
    return b"1" * len(form) if form.isdigit() else STRUCK.encode()
