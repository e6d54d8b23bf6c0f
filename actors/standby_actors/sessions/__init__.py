"""The minds that a session can be a conversation with: a function, a chat model, a script."""
