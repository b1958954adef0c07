"""Live runs that are judged after they end, and their scores.

`judged_runs` has the tables, and hands the runs out to whoever judges them; `run_scores` is for readers.
"""
