"""Start the run of a request whose lease was taken.

- `wait_for_turn`: from the lease to the run's first events, with the line before a busy conversation
- `decide_request`: the decision about a request and its append
- `run_slots`: the concurrent runs of an account; `unreadable_conversation`: events that cannot be decoded
"""
