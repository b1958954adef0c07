"""Files in requests: reading them from a body, fetching them from URLs, and storing them."""
