"""From a request to its run.

- `taking`: the lease and what is read to decide, or the run begun by one statement
- `open_run`: from there to the run's first events, with the line before a busy conversation
- `decide_request`: what becomes of the request now, and the append of it
- `run_slots`: the runs that an account may have at once; `unreadable`: events that cannot be decoded
"""
