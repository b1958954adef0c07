"""Check what an agent's reply must be: text, Markdown, or JSON by a schema (`output_spec`).

`schema_checks` validates JSON replies in separate processes, each of which runs `schema_process`.
"""
