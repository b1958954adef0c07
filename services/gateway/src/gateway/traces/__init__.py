"""/v1/chat/{trace_id}: a run that was begun before is joined, read again, or cancelled."""
