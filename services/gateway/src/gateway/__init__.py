"""HTTP: keys, limits, both chat endpoints in both stream forms, OpenAI's API, reading back, administration.

A request passes `http`, `access`, `chat` with its protocol in `protocols`, and then lives as a run that is
followed, in `runs`. `traces` and `conversations` are what was, `admin` is for operators, `status` and `docs`
for everybody. `routes` lists the handlers, `app` makes the application of them, `service` the process.
"""
