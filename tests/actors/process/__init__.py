"""Child processes, whole trees of them, and what they say."""
