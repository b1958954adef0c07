"""The tools of a run, which the tool-runner executes.

`tool_list_cache` has what the model is offered, `normalize_calls` makes a reply's calls fit to be stored and
run, `tool_calls` requests the calls and collects their results.
"""
