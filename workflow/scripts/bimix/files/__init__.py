"""Files that follow from a dataset's block of the config alone.

Imports the standard library only, as `plan` does.
"""
