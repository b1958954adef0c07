"""Submit requests (`submit_request`), resume runs, follow them (`follow_frames`), answer (`event_stream`)."""
