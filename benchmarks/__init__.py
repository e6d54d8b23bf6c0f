"""Benchmarks: what standby costs, as ratios to raw trio and to peers taken in the same run.

``python -m benchmarks`` runs every ``bench_*.py`` beside this file; each answers
the question in the first line of its docstring.  docs/benchmarks.md says how to
read the answers.  Nothing here is a test: no time is ever asserted.
"""
