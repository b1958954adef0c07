"""Who works on what.

- `leases`: a run's owner, renewed while its worker lives
- `waiting_line`: the messages that wait for a busy conversation
- `abandoned_runs`: runs without an owner, to be requested again
- `availability`: since when Postgres has answered without a break
"""
