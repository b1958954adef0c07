"""One attempt at a run, from the frame that begins it to its end.

- `run_attempt`: begins, takes the turn, ends; `turn_loop`: the turn; `perform`: each of its steps
- `channel`: the live frames, while the lease is live; `interrupted_text`: what earlier attempts have sent
- `model_reply`: the replies of the model; `retrieval`: the step that searches
- `run_log`: what is stored; `endings`: how an end is published; `interruption`: why a run stops earlier
"""
