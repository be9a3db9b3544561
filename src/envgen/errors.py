"""The base class of every error that has a message for the user."""


class EnvgenError(Exception):
    """Something a user can correct: a wrong setting, file, run directory, model or server. The message says how."""
