"""The tools of a run, which the tool-runner executes.

`listed_tools` are offered to the model, `reply_calls` makes a reply's calls fit to be stored and run,
`tool_calls` requests the calls and collects their results.
"""
