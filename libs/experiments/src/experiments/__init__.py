"""Experiments: recorded runs done again with another version, model or prompt of an agent, and compared.

- `chosen_runs`: which runs, and what they cost when they were recorded
- `experiment`: the runs done again by the orchestrators, some at a time, until all are done or it is stopped
- `reruns`: one run done again, asked of the orchestrators
- `comparison`: a recorded run next to its replay; `text_diff`: their texts and tool calls side by side
- `prices`: what tokens cost
"""
