"""Convert PDF, DOCX and XLSX files to HTML or text, in a bounded process: a file may contain anything.

`read_file` starts the process; `reader_process` is the process.
"""
