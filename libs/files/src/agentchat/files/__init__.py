"""Store the files of accounts and their users: a row in Postgres, the bytes in an object store.

`FileStore` stores, finds and deletes; `file_removal` removes files with their owners and conversations, and
what an interrupted upload or deletion left.
"""
