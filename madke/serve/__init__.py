"""Debates behind the API of OpenAI's chat completions, for ``madke serve``.

``wire`` holds the forms of requests and responses, ``conversation`` turns messages into a question, ``offers`` knows
protocols and sources, ``debates`` runs debates for requests, ``served_run`` is the run directory they go into,
``answer`` writes responses, ``app`` holds the routes, ``gate`` guards them, ``server`` is the process.
"""
