"""Combinators: many turns, one result."""
