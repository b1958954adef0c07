"""One attempt at a run, from its first frame to its end.

- `run_attempt`: begins, runs the step loop, ends; `perform_step`: each step of the loop
- `compact_history`: summaries of earlier runs; `retrieval`: the search step
- `channel`: the live frames, while the lease is live; `interrupted_text`: what earlier attempts have sent
- `model_reply`: the model's replies
- `run_log`: the append; `interruption`: why a run stops early; `endings`: runs without a worker
"""
