"""A conversation with a language model: one small protocol, its backends, and the ledger that remembers all of it."""

from .backends import backend_for
from .budget import Budget, Prices, Totals
from .chat import Chat
from .ledger import LEDGER, Ledger, LedgerError
from .protocol import Ask, Backend, BudgetSpent, Busy, ChatError, Lost, Message, Refused, Reply, Usage

__all__ = [
    "LEDGER",
    "Ask",
    "Backend",
    "Budget",
    "BudgetSpent",
    "Busy",
    "Chat",
    "ChatError",
    "Ledger",
    "LedgerError",
    "Lost",
    "Message",
    "Prices",
    "Refused",
    "Reply",
    "Totals",
    "Usage",
    "backend_for",
]
