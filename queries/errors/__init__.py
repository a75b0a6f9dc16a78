"""Expected errors of answers: figures of measured points, regions, and limits that are read with a confidence."""
