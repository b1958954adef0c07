"""Recorded runs as a regression suite: files, run again with another version of an agent, and judged.

- `suite`: `suite.yaml` and its files
- `cases`: one recorded run with all that is needed to do it again
- `results`: what a case came to
"""
