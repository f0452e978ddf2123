"""The operators: what a Dag author writes."""
