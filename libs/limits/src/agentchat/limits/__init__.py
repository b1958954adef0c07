"""Limit what an account may do at a time: requests a minute, and concurrent runs.

`Limiter` decides in one round trip to Redis, by Redis' clock; while Redis is away, each process limits the
rates by itself. Redis keeps nothing that is needed for longer than a slot's lease.
"""

from agentchat.limits.admission import Admission, Counts, PlanLimits
from agentchat.limits.limiter import Limiter

__all__ = ["Admission", "Counts", "Limiter", "PlanLimits"]
