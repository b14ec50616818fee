"""Models and their calls: clients, the one pipeline that every call goes through, servers, prices.

A model by its name is :func:`madke.models.chat_models.open_model`; its calls go through a
:class:`madke.models.pipeline.CallPipeline`.
"""
