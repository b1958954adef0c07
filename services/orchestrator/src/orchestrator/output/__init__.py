"""What an agent's reply has to be.

- `output`: text, Markdown, or JSON by a schema
- `schema_checks`: JSON replies checked, by turns of the accounts and within their `cpu_budget`
- `schema_process`, `schema_protocol`, `schema_checker`: the processes that check, and what is said to them
"""
