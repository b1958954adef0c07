"""One tool call, from the work queue TOOLS to its published result: `handler` takes a delivery, bounds what
its account may take, and acknowledges it after its result was published; `executor` makes the call,
`call_output` the result.
"""
