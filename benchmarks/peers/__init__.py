"""Peers at the same work: one program each, and `runner`, which prepares and runs them."""
