"""Tools as a run uses them, while the tool-runner runs them: `listed_tools` are offered to the model,
`requested` makes what a reply requests fit to be stored and run, `tool_calls` publishes the calls of a run
and collects results.
"""
