"""Debates behind the API of OpenAI's chat completions, for ``madke serve``.

``docs/architecture.md`` lists its modules.
"""
