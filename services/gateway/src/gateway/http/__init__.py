"""HTTP, from the connection to complete answers: what every address has in common.

`strict_protocol` and `request_head` read requests, `middleware` gives each a trace and a log line, `exchange`
is a request and its answer; `strict_json`, `query` and `paging` read what it says, `http_responses` and
`problem_responses` are what goes back.
"""
