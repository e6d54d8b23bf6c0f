"""Definitions: agents, skills and instructions in files, and everything that is wrong with them.

What is read here is inert, and what is wrong with it is a value beside it:
nothing in here raises for the contents of a file.
"""
