"""The baseline: the recorded behavior of the project, with which a changed version is compared."""
