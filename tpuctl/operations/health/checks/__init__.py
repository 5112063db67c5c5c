"""The checks of the doctor: a module for each group, with its rows of the table in CHECKS."""
