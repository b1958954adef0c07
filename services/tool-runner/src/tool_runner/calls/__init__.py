"""One tool call, from the work queue TOOLS to its published result.

- `handler`: a delivery, acknowledged after its result was published
- `slots`: how many calls run at one time, by account and server
- `executor`: find the tool, call it, word what came back
- `output`: a result as JSON text of bounded size
- `result_quota`: how many bytes of results an account may publish
"""
