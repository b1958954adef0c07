"""Answer other processes by request and reply over the bus.

- `conversation_commands`: commands on conversations: `erase_conversation`, `record_decision`, `fork_command`
- `model_check`: one model call with an agent's settings
- `answer_what_if`: the replay of a recorded run
"""
