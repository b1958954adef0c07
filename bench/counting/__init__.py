"""`make bench-counts`: what one chat costs in statements, transactions, messages, commands and tasks.

Counts do not shake as times do, so a test holds them: tests/bench/test_one_chat.py.
"""
