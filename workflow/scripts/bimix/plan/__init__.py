"""Planning: functions of the checked config and a dataset, never of wildcards.

Imports the standard library and YAML only, since each call of Snakemake and each of its jobs waits for it.
"""
