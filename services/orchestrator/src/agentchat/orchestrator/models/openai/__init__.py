"""OpenAI's Chat Completions API, in the dialects of the servers that speak it.

Nothing else imports `openai`, which takes over a second. `dialects` is the table of differences; `client` and
`request_messages` write a call, `completion_stream` reads a reply, `completion_errors` translates errors.
"""
