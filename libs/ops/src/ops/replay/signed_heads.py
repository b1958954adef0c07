"""Heads of days as files to be kept elsewhere, signed with Ed25519 by the deployment's key.

The signature is over the head's JSON: without blanks, its fields in the order of `DayHead`.
"""

import base64
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from contracts import wire
from conversations.chain.day_heads import DayHead, Leaf, sha256_of
from ops.environment import given
from ops.errors import SetupError, StackError
from ops.folder_secrets import key_bytes

AUDIT_KEY = "AGENTCHAT_AUDIT_KEY"


class SignedHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file's content; `public_key` and `signature` are in base64."""

    head: DayHead
    public_key: str
    signature: str
    leaves: tuple[Leaf, ...] = ()


def private_key() -> Ed25519PrivateKey | None:
    """The deployment's. Raises SetupError where it is set to something else."""
    text = given(os.environ, AUDIT_KEY)
    return None if text is None else Ed25519PrivateKey.from_private_bytes(key_bytes(text, AUDIT_KEY))


def public_key(text: str) -> Ed25519PublicKey:
    """Raises SetupError."""
    return Ed25519PublicKey.from_public_bytes(key_bytes(text, "--public-key"))


def signed(head: DayHead, leaves: Sequence[Leaf], key: Ed25519PrivateKey) -> SignedHead:
    """The head with its signature; with `leaves`, an audit can say which conversations have changed."""
    return SignedHead(
        head=head,
        public_key=_base64(key.public_key().public_bytes_raw()),
        signature=_base64(key.sign(wire.encode(head))),
        leaves=tuple(leaves),
    )


def read(path: Path, keys: Sequence[Ed25519PublicKey]) -> SignedHead:
    """A file that one of these keys has signed. Raises SetupError, and StackError where none has."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=SignedHead)
        signature = base64.b64decode(found.signature, validate=True)
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SetupError(f"{path} is no head of a day: {error}") from None
    if not any(_has_signed(key, signature, found.head) for key in keys):
        raise StackError(f"{path}: its signature is of no key that is trusted here")
    if found.leaves and sha256_of(found.leaves) != found.head.sha256:
        raise StackError(f"{path}: its leaves are not those that were signed")
    return found


def _has_signed(key: Ed25519PublicKey, signature: bytes, head: DayHead) -> bool:
    try:
        key.verify(signature, wire.encode(head))
    except InvalidSignature:
        return False
    return True


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
