"""Decides for all pages which mixture is best, by which objective, with which certainty."""
