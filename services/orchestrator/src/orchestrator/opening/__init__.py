"""From a request to its run.

- `at_once`: the run begun by one statement, where nothing speaks against it
- `taking`: the lease, and what is read to decide; `opening`: from there to the run's first events
- `deciding`: what becomes of the request now, and the append of it
- `waiting`: the line before a busy conversation; `slots`: the runs that an account may have at once
- `unreadable`: conversations with an event that cannot be decoded
"""
