"""Tools as a run sees them; the tool-runner runs them.

- `listing`: which tools an agent is offered
- `requested`: what a reply asks of tools, made fit to be stored and run
- `tool_calls`: the calls of a run, asked for and collected
"""
