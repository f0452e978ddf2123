"""Doing it: the only floor with pyspark."""
