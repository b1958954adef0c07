"""Recorded runs as a regression suite: collected to files, redacted, answered again, judged and compared.

The modules in the order in which data moves:

- `suite`, `cases`: the files of a suite
- `choosing`, `collecting`, `redaction`: from the log to cases
- `running`: the cases answered again and judged, by `pydantic-evals`; `evaluators`: what judges them
- `statistics`, `verdict`: what got worse
- `reports`: for CI and for a pull request

Only `running` and `evaluators` import `pydantic-evals`, which takes seconds and 40 MB: no service does.
"""
