"""/v1/chat/{trace_id}: a run that was begun before is joined, read again, or cancelled.

`events` and `cancel` have the handlers, `owned_run` finds the run of a path. `shared_streams` are the runs
that are read here, each followed once; a `replay_buffer` is what the readers of one get.
"""
