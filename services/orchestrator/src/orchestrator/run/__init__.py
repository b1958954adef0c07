"""One attempt at a run, from the frame that begins it to the end that it comes to.

- `attempt`: begins, takes the turn, ends; `turn_loop`: the turn; `perform`: each of its steps
- `channel`: the live frames; `resume`: what earlier attempts have sent; `endings`: how an end is made known
- `interruption`: why a run stops before its end; `clock`: its time
- `retrieval`: the step that searches; `model_span`: the span of a model call
"""
