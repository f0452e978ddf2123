-- PostgreSQL runs this once, when its volume is new. The history has a database and a user of its own: a deployment must
-- be able to keep it apart from Airflow's.
CREATE USER replacewhere PASSWORD 'replacewhere';
CREATE DATABASE replacewhere OWNER replacewhere;
