"""The tools of a run, which the tool-runner executes.

`offered_tools` has what the model is offered, of the lists in `tool_list_cache`, and makes a reply's calls
fit to be stored and run; `tool_calls` requests the calls and collects their results.
"""
