"""What is read from the log itself.

- `threads`: a conversation for its readers; `time_travel`: as it was; `find_run`: from a trace to its run
- `shown_history`: a conversation by the history that its caller shows; `unlisted`: those that are removed
- `account_figures`: an account's tokens and bytes; `sampling`: conversations picked by chance
"""
