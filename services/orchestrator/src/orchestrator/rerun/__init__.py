"""Recorded runs done again in memory, for `rpc.what_if`: nothing is appended, published or counted.

- `rerun`: the turn, as any run's, with a record at its ends
- `rerun_question`: what is asked: the conversation, and the agent that is to answer
- `recorded`: the ends: a log in memory, tools and sources out of the record
- `unrecorded_calls`: what becomes of a call that the record lacks
- `simulated_tool`, `live_tools`: a model that plays tools, and the tools themselves
"""
