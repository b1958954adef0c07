"""The judge: judges the runs that agents' configurations say, after they have ended, and stores scores.

Any number may run. Until an agent has runs judged it has loaded nothing that judges, and asks Postgres alone.
`worker` is the process; `judge_runs` leases runs and judges them.
"""
