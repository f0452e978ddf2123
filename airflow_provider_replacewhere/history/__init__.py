"""What has been done: the append-only history of runs, in a database. Import :mod:`.store` for the ledger itself."""
