"""Supervision: who starts whom, what a failure means, what outlives a crash.

Empty as yet: a crash in a plain nursery ends its block, and nothing restarts.
"""
