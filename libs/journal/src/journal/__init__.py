"""Which tool calls have begun: a row is committed before a call that must not run twice.

`executions` writes and reads the rows, `migrations` makes the table.
"""

from journal.executions import Execution, Journal

__all__ = ["Execution", "Journal"]
