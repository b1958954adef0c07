"""One tool call, from the work queue TOOLS to its published result: `handler` takes a delivery and
acknowledges it after its result was published, `executor` makes the call, `call_slots` bounds what an
account may take.
"""
