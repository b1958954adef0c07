"""What an agent's reply has to be: text, Markdown, or JSON by a schema (`final_output`).

`schema_checks` checks JSON replies in processes of their own, each of which runs `schema_checker`.
"""
