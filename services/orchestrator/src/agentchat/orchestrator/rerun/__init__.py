"""Recorded runs done again in memory, for `rpc.answer_what_if`: nothing is appended, published or counted.

- `rerun`: the turn, as any run's, with a record at its ends
- `recorded`: the ends: a log in memory, tools and sources out of the record
"""
