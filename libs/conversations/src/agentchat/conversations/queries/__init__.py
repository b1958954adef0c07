"""Read the log itself, or the read models with the log as the authority.

- `read_thread`: a conversation for its readers; `time_travel`: earlier versions
- `find_by_trace`: from a trace to its run
- `find_by_history`: a conversation by the history that its client sends
- `conversation_search`, `find_approvals`, `find_feedback`: what people look for
- `monthly_usage`; `quota_figures`: what an account has of its quotas
- `current_activity`: open runs of all accounts
- `sample_conversations`, `unlisted_conversations`, `what_if_runs`
"""
