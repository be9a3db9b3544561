"""A conversation with a language model: backends behind one small protocol, a budget, and a ledger of every call."""
