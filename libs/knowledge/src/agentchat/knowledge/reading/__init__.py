"""PDF and DOCX files as HTML: made in a process of its own, which is bounded, as a file may be anything.

`read_file` starts the process, `reader` is the process.
"""
