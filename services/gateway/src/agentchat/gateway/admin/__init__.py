"""/admin/v1, for operators: a handler for each route of the table in `libs/administration`."""
