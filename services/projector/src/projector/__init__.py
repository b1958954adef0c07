"""The projector: follows the log into the read models and into EVENTS, and asks again for abandoned runs.

Any number may run; one of them leads and works, the others stand by (`leadership`).
"""
