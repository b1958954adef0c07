"""Check what an agent's reply must be: text, Markdown, or JSON by a schema (`output_spec`).

`validation_processes` validates JSON replies in separate processes, each of which runs `json_validation`.
"""
