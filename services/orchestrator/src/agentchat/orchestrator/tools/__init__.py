"""The tools of a run, which the tool-runner executes.

`offered_tools` selects the model's tools from the lists in `tool_list_cache`, and prepares a reply's calls to
be stored and run; `tool_calls` requests the calls and collects their results.
"""
