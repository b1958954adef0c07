"""Accounts, plans, API keys and agents in Postgres, and the sealing of what is secret in them.

`caller.Callers` has the gateway's one look-up a request, `agents` what a run reads, `agent_draft` what an
agent may be; `migrations` makes the tables. Every write is in the library `administration`.
"""
