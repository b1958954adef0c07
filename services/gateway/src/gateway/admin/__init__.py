"""`/admin/v1`: the HTTP door to `administration`, open to whoever has the admin token, and to no API key.

`routes` is the table of its addresses, which `door` serves and `described` describes.
"""
