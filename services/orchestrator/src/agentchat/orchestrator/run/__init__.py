"""One attempt at a run, from its first frame to its end.

- `run_attempt`: begins, takes the turn, ends; `turn_loop`: the turn; `perform_step`: each step of it
- `compact_history`: summaries of earlier runs; `retrieval`: the search step
- `channel`: the live frames, while the lease is live; `interrupted_text`: what earlier attempts have sent
- `model_reply`: the model's replies
- `run_log`: the append; `endings`: how an end is published; `interruption`: why a run stops early
"""
