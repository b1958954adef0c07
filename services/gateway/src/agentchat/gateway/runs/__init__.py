"""Start runs (`start_run`, `resume_run`), follow them (`followed_runs`), and answer (`run_follower`)."""
