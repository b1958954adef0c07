"""Track which worker does what.

- `leases`: the worker that holds a run, renewed while it lives
- `waiting_line`: the messages that wait for a busy conversation
- `abandoned_runs`: runs that no worker holds, to be requested again
- `database_availability`: since when Postgres has answered without a break
"""
