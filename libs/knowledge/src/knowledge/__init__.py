"""Knowledge bases in Postgres: documents, the chunks they are cut into, and the search for passages.

`documents` parses and cuts (pure), `importing` stores, `search` finds, `prompt` is how passages reach the
model (pure), `administration` is what is managed by hand; `migrations` makes the tables.
"""
