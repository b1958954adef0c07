"""/v1/approvals: tool calls that a person has to allow, and what is decided about them.

- `routes`: the handlers; `decision_body`: what a decision may say; `deciding`: how it is made
"""

from gateway.approvals.routes import ROUTER

__all__ = ["ROUTER"]
