"""Conversations that are cold, out of the log in Parquet files, and back.

- `archiving`: chooses cold conversations, writes their files, and then enters them in the archive's index
- `tables`: that index in Postgres, and the functions that delete, verify and insert the rows of the log
- `archive_store`, `parquet_file`: where files are, and what is in one
- `recalls`: a conversation is requested back; `archive_work`: the projector's part: it brings conversations
  back, deletes rows of the log, and rewrites files without what has left them
- `archive_log`: the log with what is archived, for rebuilds, exports and audits
"""
