"""What a plan allows at a time: requests a minute, and runs at once.

`Limiter` decides in one round trip to Redis, by Redis's clock; while Redis is away it decides by itself, in
this process. Nothing in Redis is needed for longer than a slot's lease: what an account has spent this month
is in the read models.
"""

from agentchat.limits.limiter import Limiter
from agentchat.limits.quota import Admission, PlanLimits, Quota

__all__ = ["Admission", "Limiter", "PlanLimits", "Quota"]
