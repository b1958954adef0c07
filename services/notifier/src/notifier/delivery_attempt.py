"""One request to an endpoint: signed, to a judged address, bounded, and no redirect followed."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

import aiohttp
import msgspec
from yarl import URL

from contracts.webhooks import Attempt, AttemptError
from net_guard import AddressRefused, Guard, NotLookedUp, Unresolved
from net_guard.guarded_session import judge, open_session
from notifier.delivery_clock import Clock
from notifier.schedule import LONGEST_WISH
from notifier.signing import Signer

ATTEMPT_SECONDS = 15.0
"""Until the answer's status is there, from the look-up of the name on."""

_BODY_SECONDS = 1.0

_KEEPALIVE_SECONDS = 15.0
_ANSWER_BYTES = 4096
"""So much of an answer is read, that its connection can be used again."""

_GONE = 410

_HEADERS = {"content-type": "application/json", "user-agent": "agentchat-webhooks/1"}


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request. `wish` is Retry-After in seconds.

    `not_looked_up`: the name could not be looked up just now, and nothing was sent.
    """

    attempt: Attempt
    wish: float | None = None
    not_looked_up: bool = False

    @property
    def is_success(self) -> bool:
        return self.attempt.error is None

    @property
    def is_gone(self) -> bool:
        """The receiver wants nothing more."""
        return self.attempt.status == _GONE


class _Failure(Exception):  # noqa: N818 - an outcome
    """No answer came."""

    def __init__(self, error: AttemptError, message: str, *, not_looked_up: bool = False) -> None:
        super().__init__(message)
        self.error = error
        self.message = message
        self.not_looked_up = not_looked_up


class Courier:
    """Sends requests to one endpoint."""

    def __init__(self, guard: Guard, tls: ssl.SSLContext, clock: Clock) -> None:
        self._guard = guard
        self._clock = clock
        self._session = open_session(tls, keepalive_seconds=_KEEPALIVE_SECONDS, guard=guard)

    async def send(self, url: str, signers: Sequence[Signer], message_id: str, body: bytes) -> Answered:
        """Post a message, signed by each of `signers`. Whatever goes wrong is in the answer."""
        at, began = self._clock.now(), time.monotonic()
        id_, seconds = message_id.encode(), int(at.timestamp())
        signatures = b" ".join([signer.sign(id_, seconds, body) for signer in signers])
        headers = _HEADERS | {
            "webhook-id": message_id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": signatures.decode(),
        }
        status, wish, failure = None, None, None
        try:
            status, retry_after = await self._post(url, headers, body)
            wish = self._wish_of(retry_after)
            failure = _failure_of(status)
        except _Failure as found:
            failure = found
        return Answered(
            attempt=Attempt(
                at=at,
                ms=round((time.monotonic() - began) * 1000),
                status=status,
                error=failure.error if failure else None,
                message=failure.message if failure else None,
            ),
            wish=wish,
            not_looked_up=failure is not None and failure.not_looked_up,
        )

    async def aclose(self) -> None:
        await self._session.close()

    async def _post(self, url: str, headers: dict[str, str], body: bytes) -> tuple[int, str | None]:
        """The answer's status and its Retry-After."""
        try:
            target = URL(url)
            judge(self._guard, target)
            async with asyncio.timeout(ATTEMPT_SECONDS):
                answer = await self._session.post(target, data=body, headers=headers, allow_redirects=False)
        except TimeoutError:
            raise _Failure("timeout", f"No answer came within {ATTEMPT_SECONDS:.0f} s.") from None
        except AddressRefused as error:
            raise _Failure("address_refused", f"The address may not be called: {error}.") from None
        except NotLookedUp:
            said = "The name of the endpoint could not be looked up just now."
            raise _Failure("unresolved", said, not_looked_up=True) from None
        except (Unresolved, UnicodeError):  # the latter of a name that only looks like one in Punycode
            raise _Failure("unresolved", "The name of the endpoint has no address.") from None
        except (aiohttp.ClientError, OSError, ValueError):
            said = "No connection with the endpoint came about, or it broke."
            raise _Failure("connection_failed", said) from None
        try:
            if not answer.content.at_eof():
                with contextlib.suppress(aiohttp.ClientError, OSError, asyncio.IncompleteReadError):
                    async with asyncio.timeout(_BODY_SECONDS):
                        await answer.content.readexactly(_ANSWER_BYTES)
        finally:
            answer.release()  # closes a connection whose answer was not read to its end
        return answer.status, answer.headers.get("retry-after")

    def _wish_of(self, retry_after: str | None) -> float | None:
        """Seconds, or a date, as RFC 9110 has it."""
        if retry_after is None:
            return None
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            if retry_after.isascii() and retry_after.isdigit():
                seconds = float(retry_after)
            else:
                seconds = (parsedate_to_datetime(retry_after) - self._clock.now()).total_seconds()
            return min(max(seconds, 0.0), LONGEST_WISH)
        return None


def _failure_of(status: int) -> _Failure | None:
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        return _Failure("redirect_refused", f"The endpoint answered {status}, and no redirect is followed.")
    return _Failure("status", f"The endpoint answered {status}.")
