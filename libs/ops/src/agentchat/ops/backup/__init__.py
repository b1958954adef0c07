"""Backups of Postgres, made by its own tools, and restored by one command."""
