"""Create a run folder's secrets once and store them next to the data, so that each start uses the same."""

import base64
import hashlib
import hmac
import secrets
from pathlib import Path

import msgspec

from agentchat.ops.errors import SetupError
from agentchat.ops.run_folder import write_private

_KEY_BYTES = 32


def check_key(text: str, name: str) -> None:
    """Check that a text can be a secret key. Raises SetupError, with the `name` and without the value."""
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
    """Derive the password of an embedded server's user by HMAC; it reveals neither key nor others."""
    digest = hmac.digest(key.encode(), f"{server}/{user}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Secrets(msgspec.Struct, frozen=True):
    """The content of `secrets.json`; new fields are filled in and written back."""

    secret_key: str = msgspec.field(default_factory=_generate_secret_key)
    """Key that seals secrets in the database: base64 of 32 bytes. Without it they cannot be read."""
    previous_secret_keys: tuple[str, ...] = ()
    """Earlier keys, needed until everything is sealed with the current one."""
    admin_token: str = msgspec.field(default_factory=_generate_token)
    servers_key: str = msgspec.field(default_factory=_generate_token)
    """Key for the passwords of the embedded servers, which any user of this machine can reach."""
    api_key: str = msgspec.field(default_factory=_generate_api_key)
    starter_api_key: str = msgspec.field(default_factory=_generate_api_key)
    load_api_key: str = msgspec.field(default_factory=_generate_api_key)

    def __repr__(self) -> str:
        """Leave out the secrets."""
        return "Secrets()"


def load_or_create_secrets(path: Path) -> Secrets:
    """Load the secrets of `path`, creating missing ones. Raises SetupError if the file is damaged."""
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
