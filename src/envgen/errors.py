"""The base class of every error with a message for the user, and `NonFiniteLossError`, common to all learners."""


class EnvgenError(Exception):
    """Something a user can correct: a wrong setting, file, run directory, model or server. The message says how."""


class NonFiniteLossError(EnvgenError, ArithmeticError):
    """The loss or gradient norm is NaN or infinite. The weights were not updated."""
