"""What Snakemake plans by: functions of the config and a dataset, never of wildcards; standard library only."""
