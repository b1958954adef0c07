"""How a run is requested: `admitted_request` has the guards, `start` begins the run or resumes one.

A protocol (`gateway.protocols`) reads a request into a `RunRequest`.
"""
