"""The command line. It may import every other package, and no other package imports it."""

from .main import main

__all__ = ["main"]
