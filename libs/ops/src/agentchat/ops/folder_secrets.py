"""Secrets of a run folder: made once and kept next to the data, so that a second start uses the same."""

import base64
import hashlib
import hmac
import secrets
from pathlib import Path

import msgspec

from agentchat.ops.errors import SetupError
from agentchat.ops.folder import write_private

_KEY_BYTES = 32


def check_key(text: str, name: str) -> None:
    """Raise SetupError, with its `name` and without the value, if it cannot be a secret key."""
    try:
        key = base64.b64decode(text.strip().replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise SetupError(f"{name} must be {_KEY_BYTES} bytes in base64")


def _generate_secret_key() -> str:
    return base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def _generate_token() -> str:
    return secrets.token_urlsafe(32)


def _generate_api_key() -> str:
    return f"sk-ac-{secrets.token_urlsafe(32)}"


def derive_password(key: str, server: str, user: str) -> str:
    """The password of a user of an embedded server; other passwords and the key do not follow from it."""
    digest = hmac.digest(key.encode(), f"{server}/{user}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Secrets(msgspec.Struct, frozen=True):
    """What the file `secrets.json` holds; new fields are filled in and written back."""

    secret_key: str = msgspec.field(default_factory=_generate_secret_key)
    """Seals provider keys in the database: base64 of 32 bytes. Lost, they cannot be read any more."""
    previous_secret_keys: tuple[str, ...] = ()
    """Earlier ones, which still open what they sealed, until everything is sealed with the present one."""
    admin_token: str = msgspec.field(default_factory=_generate_token)
    servers_key: str = msgspec.field(default_factory=_generate_token)
    """Makes the passwords of the embedded servers, which any user of this machine can reach on loopback."""
    api_key: str = msgspec.field(default_factory=_generate_api_key)
    starter_api_key: str = msgspec.field(default_factory=_generate_api_key)
    load_api_key: str = msgspec.field(default_factory=_generate_api_key)

    def __repr__(self) -> str:
        """Without any of them."""
        return "Secrets()"


def load_or_create_secrets(path: Path) -> Secrets:
    """The secrets of `path`, made and written where there are none. Raises SetupError where it is damaged."""
    stored = b"{}"
    if path.exists():
        stored = path.read_bytes()
    try:
        kept = msgspec.json.decode(stored, type=Secrets)
    except msgspec.DecodeError as error:
        raise SetupError(f"{path} cannot be read ({error}); restore it, or remove the run folder") from error
    for key in (kept.secret_key, *kept.previous_secret_keys):
        check_key(key, f"each secret key in {path}")
    encoded = msgspec.json.format(msgspec.json.encode(kept)) + b"\n"
    if encoded != stored:
        write_private(path, encoded)
    return kept
