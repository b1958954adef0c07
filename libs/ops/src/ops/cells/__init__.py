"""`agentchat move`: an account goes from one cell to another (docs/operate/cells.md).

- `account_move`: the steps, and what each makes sure of; `account_rows`: what is not in the log
"""
