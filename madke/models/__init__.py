"""Models and their calls: clients, the layers around a call (store, retries, limits), servers, prices.

A model stack is ``Stored(Retrying(Limited(open_model(name), limiter)), store)``. The store answers first. A call that
waits for its next attempt holds no slot of the limiter.
"""
