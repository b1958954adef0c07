"""Start the run of a request.

- `take_lease`: the lease and what is loaded with it, or the whole start in one statement
- `start_run`: from the lease to the run's first events, with the line before a busy conversation
- `decide_request`: the decision about a request and its append
- `run_slots`: the concurrent runs of an account; `unreadable_conversation`: events that cannot be decoded
"""
