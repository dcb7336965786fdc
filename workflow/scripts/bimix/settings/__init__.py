"""A config: what it may hold, what it leaves out, and what is wrong with it."""
