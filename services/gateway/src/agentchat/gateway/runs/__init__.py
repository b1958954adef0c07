"""Runs: started (`start_run`, `resume_run`), followed (`followed_runs`), and sent (`event_stream`)."""
