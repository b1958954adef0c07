"""What an administrator may do: `routes` is the table of it, for the gateway and for `agentchat admin`.

Each route is a function of an `admin_*` module. It takes an `Admin` (what it works with, and for whom) and
structs of `admin_values`, and raises AdminError. Every change leaves an audit row in its own transaction.

In addition: `admin_versions` (every change of an agent makes one), `agent_rows` and `knowledge_rows` (as they
are stored), `reseal` (all secrets sealed again), `holdings` (what would be orphaned), `checked_input`.
"""

from agentchat.administration.admin import Admin

__all__ = ["Admin"]
