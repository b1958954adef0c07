"""HTTP/1.1 to others on connections that are kept, at a fraction of a general client's cost.

- `client`: calls and connections; `answer`: what comes back, while it comes
"""
