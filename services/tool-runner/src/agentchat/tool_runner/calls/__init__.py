"""Run a tool call, from its delivery by the work queue TOOLS to its published result.

`handler` takes the delivery, waits for the account's slot, and acknowledges after the result is published.
`executor` makes the call and `call_output` builds the result.
"""
