"""How a run is requested: `admitted_request` has the guards, `launch_run` begins the run, `start` begins or
resumes one.

A protocol (`gateway.protocols`) reads a request into a `RunRequest`.
"""
