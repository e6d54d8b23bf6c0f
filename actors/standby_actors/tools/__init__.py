"""Tools: what a mind may do beside talking, and how its calls are checked, run and bounded."""
