"""Who may ask, and how much.

`auth` has the guards for keys, `wrong_keys` bounds wrong ones, `admission` has the plan's
limits, `month_counts` their tokens, `account_bounds` what an account may have of one process.
"""
