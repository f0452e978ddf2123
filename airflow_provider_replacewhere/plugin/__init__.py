"""The page in Airflow's own web interface, for Airflow 3: what is fresh, what is not, and why."""
