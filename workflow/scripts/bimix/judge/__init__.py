"""Which mixture is best, by which objective, and how sure that is: one answer for all pages."""
