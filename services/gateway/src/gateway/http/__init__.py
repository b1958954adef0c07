"""HTTP, from the connection to complete answers: what every address has in common.

`protocol` and `request_head` read requests, `middleware` gives each a trace and a log line, `exchange` is a
request and its answer; `strict_json`, `query` and `paging` read what it says, `responses` and `problems` are
what goes back.
"""
