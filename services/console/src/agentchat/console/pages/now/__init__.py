"""Now: open runs as they stream, queues, workers, errors, and charts of the last hour."""
