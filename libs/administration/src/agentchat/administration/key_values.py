"""Define the inputs and outputs of operations on API keys. Only IssuedKey shows a secret."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from agentchat.directory.api_keys import SCOPES, Scope
from agentchat.directory.partial_update import Changes

Scopes = Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=len(SCOPES))]
KeyName = Annotated[str, msgspec.Meta(max_length=200)]
MAX_OVERLAP_SECONDS = 7 * 86_400
Overlap = Annotated[int, msgspec.Meta(ge=0, le=MAX_OVERLAP_SECONDS)]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new key; `name` is for people, such as where the key is used."""

    name: KeyName = ""
    scopes: Scopes = msgspec.field(default_factory=lambda: list(SCOPES))


class KeyChanges(Changes, frozen=True, kw_only=True):
    """Changes of a key; omitted fields stay."""

    name: KeyName | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class KeyRotation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rotation; the old key works for `overlap_seconds` more, at most seven days."""

    overlap_seconds: Overlap = 0


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key; a disabled one is refused. `last_used_at` is exact to the minute, since the last rotation.

    `old_key_until`: when the key before the last rotation stops working; None if it does not work.
    """

    id: str
    account_id: str
    name: str
    last4: str
    scopes: list[Scope]
    disabled: bool
    created_at: datetime
    last_used_at: datetime | None
    rotated_at: datetime | None
    revoked_at: datetime | None
    old_key_until: datetime | None


class IssuedKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A key at the one moment when it can be seen. `old_key_until`: when the one before stops working."""

    id: str
    key: str
    last4: str
    account_id: str
    name: str
    old_key_until: datetime | None = None

    def __repr__(self) -> str:
        """Leave out the key."""
        return f"IssuedKey(id={self.id!r}, last4={self.last4!r})"
