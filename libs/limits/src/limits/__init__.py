"""What a plan allows: requests a minute, runs at once, tokens a month.

`Limiter` decides in one round trip to Redis, by Redis's clock; while Redis is away it decides by itself, in
this process. Redis is only a cache here: the month's truth is the log's usage, and slots are leases.
"""

from limits.limiter import Limiter
from limits.quota import Admission, CountedMonth, KeptMonth, PlanLimits, Quota, RefusalCode
from limits.redis_client import RedisUnavailable

__all__ = [
    "Admission",
    "CountedMonth",
    "KeptMonth",
    "Limiter",
    "PlanLimits",
    "Quota",
    "RedisUnavailable",
    "RefusalCode",
]
