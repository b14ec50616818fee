"""Tools that know nothing about debates: files, YAML, the terminal, concurrency, processes, workers, versions, logs.

A module belongs here if another program could use it as it is. It imports nothing of madke but this package and the
errors and addresses of ``madke.core``. What knows a question, a passage or a model belongs in the room of that thing.
"""
