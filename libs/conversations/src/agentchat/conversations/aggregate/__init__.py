"""The aggregate of the event store, pure.

- `conversation`: the state, and `evolve`, the only thing that changes it
- `rounds` of its runs, and the tool `calls` in them
- `approvals`: the rules by which persons decide about calls
- `turn`: the rules: how a request begins or goes on, what comes next, how a run ends
- `history`: what the model sees, and what is kept of it; `canonical_stream`: what readers of a run are sent
- `run_usage`: what runs cost; `description`: the rules of title and metadata
- `forking`: what a fork has of its source; `settled`: where no run is under way
"""
