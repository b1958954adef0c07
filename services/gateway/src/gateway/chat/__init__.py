"""A run is asked for: `start` has the stages, in the order of the checks, and `launch` the last of them.

A protocol (`gateway.protocols`) reads a request into a `RunRequest`: `body` is our own body, `forms` the
header that chooses a form, `idempotency` the header that makes one run of equal requests.
"""
