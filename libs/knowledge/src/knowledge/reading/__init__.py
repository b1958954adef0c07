"""PDF and DOCX files as HTML: made in a process of its own, which is bounded: a file may be anything.

`reading` has them read, `reader` is the process; `pdf` and `docx` are what it knows.
"""
