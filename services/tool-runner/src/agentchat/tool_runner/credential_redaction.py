"""Replace credentials that a tool server repeats in its messages.

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
_ESCAPE = re.compile(rb"\\(?:u00([2-7][0-9a-fA-F])|.)", re.DOTALL)
"""An escape of JSON, with the code of an ASCII character: .NET writes + as \\u002B, Go & as \\u0026."""


class CredentialRedactor:
    """Replaces the credentials of a request in the messages of its response."""

    def __init__(self, headers: Mapping[str, str], secret_headers: Collection[str] = ()) -> None:
        """Redact the credentials in `headers`. `secret_headers`, in small letters, are credentials too."""
        forms = {form for secret in _find_secrets(headers, secret_headers) for form in _list_forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)

    def strike(self, message: bytes) -> bytes:
        """Return a complete message without the credentials."""
        if self._forms and b"\\u00" in message:
            message = _ESCAPE.sub(_decode_escape, message)
        for form in self._forms:
            if form in message:
                message = message.replace(form, _choose_replacement(form))
        return message


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


def _decode_escape(escape: re.Match[bytes]) -> bytes:
    """Return the character that needs no escape; others stay escaped."""
    character = bytes.fromhex(escape[1].decode()) if escape[1] else b"\\"
    return escape[0] if character in (b'"', b"\\", b"\x7f") else character


def _choose_replacement(form: bytes) -> bytes:
    """Return the replacement of a credential.

    A number for a number, because JSON may need one.
    """
    return b"1" * len(form) if form.isdigit() else STRUCK.encode()
