"""Replay recorded runs in memory, for `rpc.answer_what_if`: nothing is appended, published or counted.

- `replay_run`: the turn of any run, with recorded effects
- `recorded_tools`: a log in memory, recorded tool results and sources, and no readers
"""
