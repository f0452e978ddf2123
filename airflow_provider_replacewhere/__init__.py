"""REPLACE WHERE flows for Airflow, on plain Spark and Delta Lake.

This file imports nothing but the standard library: Airflow loads it while it is itself still being imported.
"""

__version__ = "0.1.0"
