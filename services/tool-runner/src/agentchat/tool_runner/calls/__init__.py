"""Run a tool call, from its delivery by the work queue TOOLS to its published result.

`handler` takes the delivery and publishes the result, `executor` waits for a slot and makes the call, and
`call_output` renders what the model gets.
"""
