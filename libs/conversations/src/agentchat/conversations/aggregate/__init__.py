"""The aggregate of the event store: pure functions, no clock and no I/O.

- `conversation`: the state, and `evolve`, the only function that changes it
- `rounds`: the rounds of a run and the tool calls in them
- `opening_rules`: the rules of a request: it starts or resumes a run, waits, or is refused
- `next_step`: the rules of the run: which step is next, how it ends
- `approval_rules`, `description_rules`, `feedback_rules`: the rules of decisions, of title and metadata, of
  feedback
- `model_messages`: what the model sees; `compaction_rules`: the summary that replaces old messages
- `canonical_stream`: the updates that readers of a run receive
- `forking`: the part of a conversation that a fork copies
"""
