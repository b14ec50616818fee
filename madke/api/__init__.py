"""What ``import madke`` offers: :mod:`madke.api.asking` for one question, :mod:`madke.api.running` for many."""
