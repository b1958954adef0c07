"""Send one request to an endpoint.

Signed, to a checked address, bounded, without following redirects.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp
import msgspec
from yarl import URL

from agentchat.contracts.webhooks import Attempt, AttemptError
from agentchat.net_guard import AddressRefused, Guard, NotLookedUp, Unresolved
from agentchat.net_guard.guarded_session import check_request, open_session
from agentchat.webhooks.retry_schedule import LONGEST_RETRY_AFTER
from agentchat.webhooks.webhook_signing import Signer

ATTEMPT_SECONDS = 15.0
"""The time until the answer's status arrives, the look-up of the name included."""

_BODY_SECONDS = 1.0

_KEEPALIVE_SECONDS = 15.0
_ANSWER_BYTES = 4096
"""The bytes of an answer that are read, so that its connection can be used again."""

_GONE = 410

_HEADERS = {"content-type": "application/json", "user-agent": "agentchat-webhooks/1"}


class Clock:
    """The database's time, which signatures use, continued by this host's monotonic clock."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def set(self, now: float) -> None:
        """Set the time that was just read, in seconds since 1970."""
        self._ahead = now - time.monotonic()

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.fromtimestamp(time.monotonic() + self._ahead, UTC)


class AttemptResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a request. `retry_after` is in seconds."""

    attempt: Attempt
    retry_after: float | None = None

    @property
    def is_success(self) -> bool:
        """Return True if the endpoint accepted it."""
        return self.attempt.error is None

    @property
    def is_gone(self) -> bool:
        """Return True if the receiver wants nothing more (410)."""
        return self.attempt.status == _GONE


class _Failure(Exception):  # noqa: N818 - an outcome
    """The endpoint gave no answer, or refused."""

    def __init__(self, error: AttemptError, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class WebhookSender:
    """Sends requests to one endpoint, whose account's share of look-ups pays for its name.

    Each has its own connections: the cost of a request grows with the connections in its pool.
    """

    def __init__(self, guard: Guard, tls: ssl.SSLContext, clock: Clock, account_id: str) -> None:
        self._guard = guard
        self._clock = clock
        self._session = open_session(
            tls, keepalive_seconds=_KEEPALIVE_SECONDS, guard=guard, account_id=account_id
        )

    async def send(self, url: str, signers: Sequence[Signer], message_id: str, body: bytes) -> AttemptResult:
        """Post a message, signed by each of `signers`. Every failure is in the result."""
        at, began = self._clock.now(), time.monotonic()
        id_, seconds = message_id.encode(), int(at.timestamp())
        signatures = b" ".join([signer.sign(id_, seconds, body) for signer in signers])
        headers = _HEADERS | {
            "webhook-id": message_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signatures.decode(),
        }
        status, retry_after, failure = None, None, None
        try:
            status, header = await self._post(url, headers, body)
            retry_after = _retry_after_seconds(header, at)
            failure = _build_failure(status)
        except _Failure as found:
            failure = found
        return AttemptResult(
            attempt=Attempt(
                at=at,
                ms=round((time.monotonic() - began) * 1000),
                status=status,
                error=failure.error if failure else None,
                message=failure.message if failure else None,
            ),
            retry_after=retry_after,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None]:
        """Return the answer's status and its Retry-After."""
        try:
            target = URL(url)
            check_request(self._guard, target)
            async with asyncio.timeout(ATTEMPT_SECONDS):
                answer = await self._session.post(target, data=body, headers=headers, allow_redirects=False)
        except TimeoutError:
            raise _Failure("timeout", f"No answer within {ATTEMPT_SECONDS:.0f} s.") from None
        except AddressRefused as error:
            raise _Failure("address_refused", f"The address is not allowed: {error}.") from None
        except NotLookedUp:
            reason = "The host name could not be looked up right now."
            raise _Failure("unresolved", reason) from None
        except (Unresolved, UnicodeError):  # the latter for an invalid Punycode name
            raise _Failure("unresolved", "The host name has no address.") from None
        except (aiohttp.ClientError, OSError, ValueError):
            reason = "The connection failed or broke."
            raise _Failure("connection_failed", reason) from None
        try:
            if not answer.content.at_eof():
                with contextlib.suppress(aiohttp.ClientError, OSError, asyncio.IncompleteReadError):
                    async with asyncio.timeout(_BODY_SECONDS):
                        await answer.content.readexactly(_ANSWER_BYTES)
        finally:
            answer.release()  # closes a connection whose answer was not read completely
        return answer.status, answer.headers.get("retry-after")


def _retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a Retry-After of seconds or of a date (RFC 9110)."""
    if header is None:
        return None
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        if header.isascii() and header.isdigit():
            seconds = float(header)
        else:
            seconds = (parsedate_to_datetime(header) - now).total_seconds()
        return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)
    return None


def _build_failure(status: int) -> _Failure | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return _Failure("redirect_refused", f"The endpoint answered {status}; redirects are not followed.")
    return _Failure("status", f"The endpoint answered {status}.")
