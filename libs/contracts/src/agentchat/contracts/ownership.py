"""Decide who may use a conversation: its account, and of a request that names an end user, that user."""

import re
from typing import Protocol

import msgspec

MAX_USER_ID = 128
_USER_ID = re.compile(rf"[!-~]{{1,{MAX_USER_ID}}}\Z")


class Owned(Protocol):
    """Something of an account and perhaps of one of its end users; also a request of theirs."""

    @property
    def account_id(self) -> str | None:
        """Return the account, None if it is unknown."""

    @property
    def user_id(self) -> str | None:
        """Return the end user, None for the account's own."""


class Owner(msgspec.Struct, frozen=True):
    """The account of a conversation, and the end user who started it, if one was named."""

    account_id: str
    user_id: str | None = None


def may_use(request: Owned, conversation: Owned) -> bool:
    """Return True if the request may use the conversation.

    A request without a user is the account's and may use all of its conversations. A request with a user may
    use that user's only.
    """
    return conversation.account_id == request.account_id and request.user_id in (None, conversation.user_id)


def build_scope(request: Owned) -> str:
    """Return a name that no other account or user has, for keys and names that a client chose itself."""
    return request.account_id or "" if request.user_id is None else f"{request.account_id}/{request.user_id}"


def is_user_id(text: str) -> bool:
    """Return True for an end user's id: 1 to 128 characters of visible ASCII."""
    return _USER_ID.match(text) is not None
