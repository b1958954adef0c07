"""The notifier: sends each account's webhooks to its endpoints.

Any number may run. It needs Postgres alone, and until there is an endpoint it has loaded nothing that sends.
`worker` is the process; `dispatching` leases endpoints, `endpoint_batch` sends to one of them.
"""
