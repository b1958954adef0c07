"""The real servers of the embedded stack, out of their wheels: NATS, Postgres and Valkey.

Each module makes a `Process` of its server, with its data in the run folder and its settings from `deploy/`.
"""
