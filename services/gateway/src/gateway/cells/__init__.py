"""The router in front of several cells: `python -m gateway.cells` (docs/operate/cells.md, decision 129).

It holds no state but a cache: the cells themselves know whose keys they have. `cell_settings`; `find_cell`:
from a key to its cell; `cell_proxy`: a request to the cell and its answer back, as it comes; `__main__`.
"""
