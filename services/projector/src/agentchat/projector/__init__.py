"""The projector: follows the log into the read models and into EVENTS, asks again for abandoned runs,
and removes what is left of erased conversations. One projector leads, others stand by (`leader`).
"""
