"""What ``import madke`` offers: :mod:`madke.api.one_question` for one question, :mod:`madke.api.batch` for many."""
