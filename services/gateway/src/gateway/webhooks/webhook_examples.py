"""What the OpenAPI document shows of webhooks."""

from datetime import UTC, datetime

from msgspec.structs import asdict

from contracts.examples import ENDPOINT
from contracts.webhooks import Attempt, Delivery, Endpoint, IssuedEndpoint, NewEndpoint, Replay, ReplayBody

_AT = datetime(2026, 11, 21, 9, 30, 0, 123456, tzinfo=UTC)
_LATER = datetime(2026, 11, 21, 9, 30, 5, 654321, tzinfo=UTC)

NEW = NewEndpoint(url="https://hooks.example.com/agents", events=("run.completed", "run.failed"))
SHOWN = Endpoint(
    id=ENDPOINT,
    url=NEW.url,
    events=NEW.events,
    payload="thin",
    disabled=False,
    disabled_reason=None,
    secret_last4="9sE=",  # noqa: S106 - an example
    position=4711,
    failing_since=None,
    created_at=_AT,
)
_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD0000000009sE="  # noqa: S105 - an example
ISSUED = IssuedEndpoint(**asdict(SHOWN), secret=_SECRET)
DELIVERED = Delivery(
    id="msg_0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    type="run.completed",
    position=4711,
    status="delivered",
    attempts=(
        Attempt(at=_AT, ms=41, status=503, error="status", message="The endpoint answered 503."),
        Attempt(at=_LATER, ms=38, status=204),
    ),
    next_attempt_at=None,
    created_at=_AT,
)
RANGE = ReplayBody(from_=4000, to=4711)
REPLAY = Replay(id="0192f0c1-0000-7000-8000-0000000000e9", endpoint_id=ENDPOINT, from_=4000, to=4711)
