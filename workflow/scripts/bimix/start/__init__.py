"""What happens to a config before the first job: its files found, merged and checked."""
