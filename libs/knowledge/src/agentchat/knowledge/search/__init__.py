"""The search for passages: `search` finds them by text and by meaning, `search_words` writes text as words
for full text search, `passages` has what a search gives, with the order and the excerpts (both pure).
"""
