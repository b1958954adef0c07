"""What an administrator may do: `routes` is the table of it, for the gateway and for `agentchat admin`.

After each route is a function of `accounts`, `keys`, `plans`, `agents`, `mcp_servers`, `knowledge`,
`documents`, `conversations`, `usage` or `audit`. It takes an `Admin` (with what, and for whom) and structs of
`values`, and raises AdminError. Every change leaves an audit row in its own transaction (`rows`).

Next to them: `versions` (every change of an agent makes one), `agent_rows` and `agent_secrets` (as they are
stored), `reseal` (all secrets sealed again), `holdings` (what would be orphaned), `reading` (what callers
hand in).
"""

from administration.admin import Admin

__all__ = ["Admin"]
