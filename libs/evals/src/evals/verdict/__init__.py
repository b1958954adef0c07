"""Whether another version of an agent is worse than what was recorded, or than a stored baseline.

- `paired_difference`: one comparison: its interval, and how well chance explains it
- `comparisons`: every evaluator over the whole suite and over its slices
- `verdict`: what follows of them, and what else was counted
"""
