"""`/admin/v1`: the table of `administration.routes` over HTTP, for whoever has the admin token.

`access` opens it and makes a handler for each route, `reading` takes a request apart, `answering` calls what
is behind the route, `described` describes it, with `examples`.
"""
