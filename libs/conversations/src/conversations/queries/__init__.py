"""What is read from the log itself.

- `threads`: a conversation for its readers; `time_travel`: as it was; `find_run`: from a trace to its run
- `shown_history`: a conversation by the history that its caller shows; `unlisted`: those that are removed
- `month_usage`: an account's tokens; `sampling`: conversations picked by chance
"""
