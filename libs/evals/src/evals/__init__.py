"""Recorded runs as a regression suite: files, run again with another version of an agent, and judged.

- `suite`: `suite.yaml` and its files; `case_file`: the cases, a line each
- `cases`: one recorded run with all that is needed to do it again; `recorded_run`: what it holds
- `results`: what a case came to
"""
