"""The command line; the only room that knows all others."""

from .main import main

__all__ = ["main"]
