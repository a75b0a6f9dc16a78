"""The formula version: raised by hand when stored numbers change meaning or value. Not the program's version."""

FORMULA_VERSION = 2
PLAY_VERSION = 1  # of requests that arrive: raised when loads change meaning or value and probes do not
