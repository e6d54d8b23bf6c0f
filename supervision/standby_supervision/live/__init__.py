"""Who is at work now: entries that are there exactly as long as their tasks."""
