"""HTTP to tool servers, which are strangers.

- `transport`: requests to judged addresses, answers of bounded size, an absolute deadline
- `exchange`: what one call, listing or handshake may cost
- `body`: an answer's body, counted and decompressed in small steps; `surrogates`: its JSON made readable
- `network`: errors of the network as faults
"""
