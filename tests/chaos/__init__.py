"""The chaos rig: `plan` and `load` make traffic, `faults` breaks the stack, `checker` judges the records.

`run` is `make chaos` and `make failover`.
"""
