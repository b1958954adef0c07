"""Replay recorded runs: one by one (what-if), or as a regression suite of files.

The modules in the order in which data moves:

- `suite`, `cases`: the files of a suite
- `case_sampling`, `case_reader`, `case_redaction`: from the log to cases
- `suite_run`: replays and judges the cases by `pydantic-evals`; `evaluators`: the judges; `answer_cache`:
  each answer is paid for once
- `run_choice`, `replay_requests`: replay runs of the log; `compared_run`, `text_diff`
- `statistics`, `verdict`: what got worse
- `reports`: for CI and for a pull request

Only `suite_run` and `evaluators` import `pydantic-evals`, which takes seconds and 40 MB: no service does.
"""
