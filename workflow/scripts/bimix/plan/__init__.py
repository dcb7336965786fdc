"""What Snakemake plans by: functions of the checked config and a dataset, never of wildcards; standard library only."""
