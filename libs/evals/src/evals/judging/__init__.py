"""Runs judged by evaluators of `pydantic-evals`: what each is given, and what they say.

- `run_evaluator`: what an evaluator of ours is, and what it sees of a run
- `text_evaluators`, `tool_evaluators`, `figure_evaluators`, `recorded_profile`: without a model
- `model_judges`: with one
- `evaluator_registry`: from `suite.yaml` to evaluators, and which judge where it names none
- `judgement`: all of a suite's runs judged
"""
