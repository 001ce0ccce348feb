"""Regular expressions of clients in the syntax of RE2, matched in time that is linear in the text, for any expression.

ListTransactions takes one for transactional ids (KIP-1152), and members of consumer groups subscribe to topics by one
(KIP-848); Apache Kafka matches them with RE2/J. Python's `re` has another syntax, and backtracks, which takes
exponential time for some expressions. The library google-re2 has no wheels for PyPy and for musl.

`syntax.py` reads an expression as a tree, with `characters.py` for what one character may be, `automaton.py` makes
states of it that are followed all at once (Thompson's construction), and `Pattern` matches whole texts.
"""

from .pattern import Pattern

__all__ = ["Pattern"]
