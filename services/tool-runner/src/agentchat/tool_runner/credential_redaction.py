"""Replace credentials that a tool server repeats in the bytes of its responses.

Only headers with a name such as authorization or api-key count, and those that hold secrets of a request:
others may hold words that responses need.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping

STRUCK = "[hidden]"
_CREDENTIAL = re.compile(r"auth|key|token|secret|cookie|password|credential|session", re.IGNORECASE)
_SCHEME = re.compile(r"([\w.+-]+)\s+(?=\S)")
# A parameter or a cookie: its value is a secret and its name is not (RFC 9110 11.2, RFC 6265 4.1).
_VALUE = re.compile(r'\s*(?:[^\s;,="]+\s*=\s*)?("(?:\\.|[^"\\])*"|[^;,]*)')
_SHORTEST = 8


class CredentialRedactor:
    """A filter that replaces the credentials of a request in the pieces of its response.

    If a piece ends inside what may be a credential, that part is held back until the next piece.
    """

    def __init__(self, headers: Mapping[str, str], secret_headers: Collection[str] = ()) -> None:
        """Redact the credentials in `headers`. `secret_headers`, in small letters, are credentials too."""
        forms = {form for secret in _find_secrets(headers, secret_headers) for form in _list_forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)
        self._first_bytes = {form[0] for form in forms}
        self._held = b""

    def strike(self, piece: bytes) -> bytes:
        """Return the bytes that are safe to pass on.

        The others follow with the next piece or as `rest`.
        """
        if not self._forms:
            return piece
        text = self._held + piece
        for form in self._forms:
            if form in text:
                text = text.replace(form, _choose_replacement(form))
        end = self._find_cut_credential(text)
        self._held = text[end:]
        return text[:end]

    @property
    def rest(self) -> bytes:
        """Return the bytes that are still held back when the response ends."""
        return self._held

    def _find_cut_credential(self, text: bytes) -> int:
        """Return the index at which a credential may start that the end of `text` cuts off."""
        for index in range(max(0, len(text) - len(self._forms[0]) + 1), len(text)):
            if text[index] in self._first_bytes and any(f.startswith(text[index:]) for f in self._forms):
                return index
        return len(text)


def _find_secrets(headers: Mapping[str, str], secret_headers: Collection[str]) -> Iterator[str]:
    """Yield the credentials as they are sent, and the secret parts of them."""
    for name, value in headers.items():
        if _CREDENTIAL.search(name) or name.lower() in secret_headers:
            yield from (part for part in _split_credential(value.strip()) if len(part) >= _SHORTEST)


def _split_credential(value: str) -> Iterator[str]:
    yield value
    if scheme := _SCHEME.match(value):
        value = value[scheme.end() :]
        yield value
        yield value.rstrip("=")  # base64 is repeated without its padding too
    for match in _VALUE.finditer(value):
        yield match[1].strip().strip('"')


def _list_forms(secret: str) -> Iterator[bytes]:
    """Yield `secret` as it is and as JSON encoders write it."""
    yield secret.encode()
    escaped = json.dumps(secret)[1:-1]
    yield escaped.encode()
    yield escaped.replace("/", "\\/").encode()


def _choose_replacement(form: bytes) -> bytes:
    """Return the replacement of a credential.

    A number for a number, because JSON may need one.
    """
    return b"1" * len(form) if form.isdigit() else STRUCK.encode()
