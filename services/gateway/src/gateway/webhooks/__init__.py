"""/v1/webhook_endpoints: where an account receives what happens, and what became of each delivery.

- `routes`: the endpoints; `deliveries`: their deliveries, tests and replays
- `reading`: bodies, addresses and refusals of both
- `examples`, `description`: what the OpenAPI document shows
"""

from gateway.webhooks.routes import ROUTER

__all__ = ["ROUTER"]
