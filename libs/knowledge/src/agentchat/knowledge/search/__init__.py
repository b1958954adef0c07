"""Search passages.

`search` finds them by text and by meaning, `search_words` splits text into words for full-text search, and
`passages` ranks, excerpts and formats them (both pure).
"""
