"""Recorded runs answered again: one by one (what-if), or as a regression suite of files.

The modules in the order in which data moves:

- `suite`, `cases`: the files of a suite
- `choosing`, `collecting`, `redaction`: from the log to cases
- `running`: the cases answered again and judged, by `pydantic-evals`; `evaluators`: what judges them;
  `kept_answers`: each answer is paid for once
- `chosen_runs`, `reruns`: recorded runs of the log, answered again; `compared_run`, `text_diff`, `prices`
- `statistics`, `verdict`: what got worse
- `reports`: for CI and for a pull request

Only `running` and `evaluators` import `pydantic-evals`, which takes seconds and 40 MB: no service does.
"""
