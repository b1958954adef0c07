"""The projector: follows the log into the read models and into EVENTS, asks again for abandoned runs,
removes what is left of erased conversations, and rebuilds read models.

Any number may run; one of them leads and works, the others stand by (`leadership`).
"""
