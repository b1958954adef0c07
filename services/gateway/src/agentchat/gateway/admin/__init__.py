"""Serve /admin/v1 for operators: one handler for each route of `administration.routes`."""
