"""Recorded runs as a regression suite: files, run again with another version of an agent, and judged.

- `suite`: `suite.yaml` and its files; `case_file`: the cases, a line each
- `cases`: one recorded run with all that is needed to do it again; `recorded_run`: what it holds
- `results`: what a case came to
- `questions`: a case as a question for the orchestrators
- `running`: the cases done again; `answer_cache`, `spending`: what was paid for; `overrides`: another version
- `asking`: a text put to a model, for judges
- `judging`: evaluators, and what they say of each try; `language`: of a text
- `verdict`: whether a run of a suite is worse than what was recorded, or than a baseline; `reports`: of it
"""
