"""Submit requests (`submit_request`), resume runs, follow them (`followed_runs`), answer (`run_follower`)."""
