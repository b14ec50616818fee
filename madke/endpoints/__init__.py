"""Servers of models: their addresses, keys, limits and prices, what they refuse, and the clients that call them.

Chat models, encoders and rerankers behind a server are made of these modules. How a model is chosen by its name is in
``madke.llm``.
"""
