"""The agent of a run: `run_agent` has its configuration at a version, `credentials` where its model calls
go.
"""
