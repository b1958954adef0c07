"""What the endpoints of one gateway share; put together in `service`."""

from typing import Literal

import msgspec

from bus import Bus
from conversations.log import Log
from directory.last_used import LastUsed
from gateway.admin.door import AdminDoor
from gateway.guesses import Guesses
from gateway.key_checks import KeyChecks
from gateway.peers import Network
from gateway.runs import Runs
from gateway.shares import Shares
from gateway.stories import Stories
from limits import Limiter
from runtime.health import Health
from runtime.postgres import Pool


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """`stream_form` is the form of streams whose request does not choose one.

    What `advisory` looks at is shown beside `health`, but the gateway is ready without it. `admin` is None
    where the admin API is off.
    """

    pool: Pool
    last_used: LastUsed
    guesses: Guesses
    key_checks: KeyChecks
    trusted_proxies: tuple[Network, ...]
    limiter: Limiter
    bus: Bus
    log: Log
    runs: Runs
    stories: Stories
    shares: Shares
    health: Health
    advisory: Health
    stream_form: Literal[1, 2]
    admin: AdminDoor | None = None
