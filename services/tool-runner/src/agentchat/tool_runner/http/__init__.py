"""HTTP to tool servers, which are strangers: `transport` sends requests to judged addresses, `call_budget`
is what one call, listing or handshake may cost, `network` reads an answer within it.
"""
