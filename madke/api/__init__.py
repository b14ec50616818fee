"""The Python API: :mod:`madke.api.one_question` for one question, :mod:`madke.api.batch` for many."""
