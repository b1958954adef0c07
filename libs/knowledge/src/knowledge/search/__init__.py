"""The search for passages.

- `search`: by text and by meaning; `ranking`: one ranking out of both (pure)
- `words`: text as words for full text search (pure)
- `passages`: what a search gives; `snippets`: the excerpt that a caller is shown (pure)
"""
