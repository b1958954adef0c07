"""The projector: follows the log into read models, EVENTS and webhook deliveries.

It also requests abandoned runs again (`run_sweeper`), and removes what is left of erased conversations
(`erasure_step`). One projector leads, others stand by (`leader`).
"""
