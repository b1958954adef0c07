"""The body of `POST /v1/chat/completions`: `requests` are its types, `reading` makes ours of it."""
