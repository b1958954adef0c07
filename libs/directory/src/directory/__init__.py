"""Accounts, plans, API keys and agents in Postgres, and the sealing of what is secret in them.

`caller.resolve` is the door's one look-up a request; `agents` is what a run reads; `administration` holds
every write, each with its audit row; `migrations` makes the tables.
"""
