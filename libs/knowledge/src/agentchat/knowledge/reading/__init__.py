"""Convert PDF and DOCX files to HTML, in a bounded process of its own, since a file may contain anything.

`read_file` starts the process; `reader_process` is the process.
"""
