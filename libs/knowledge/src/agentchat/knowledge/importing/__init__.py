"""Documents into a knowledge base: `import_files` makes drafts of files, `drafts` cuts them (pure),
`importer` stores one document, `tables` are its statements.
"""
