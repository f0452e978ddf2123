"""Doors from Airflow to the ledger."""
