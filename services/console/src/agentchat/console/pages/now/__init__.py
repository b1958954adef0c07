"""The page Now: open runs as they stream, queues, workers, errors, charts of an hour."""
