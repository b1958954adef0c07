"""Administer accounts, agents, keys and conversations: `routes` is the table of all operations.

The gateway serves the table and `agentchat admin` calls it. Each route is a function of an `admin_*` module.
It takes an `Admin` (connections and actor) and structs of `admin_values`, and raises AdminError. Every change
adds an audit row in its own transaction.

Further modules: `agent_versions` (each change of an agent makes a version), `agent_rows` and `knowledge_rows`
(stored rows), `secret_key_rotation`, `deletion_impact` (what a deletion would orphan), `checked_input`.
"""

from agentchat.administration.admin import Admin

__all__ = ["Admin"]
