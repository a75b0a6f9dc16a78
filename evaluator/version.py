"""The formula version: raised by hand when stored numbers change meaning or value. Not the program's version."""

FORMULA_VERSION = 2
