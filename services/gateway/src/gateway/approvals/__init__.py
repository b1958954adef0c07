"""/v1/approvals: tool calls that a person has to allow, and what is decided about them.

`routes` has the handlers, `decide_approval` what decides.
"""

from gateway.approvals.routes import ROUTER

__all__ = ["ROUTER"]
