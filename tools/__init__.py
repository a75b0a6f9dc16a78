"""Writers of files that ship or document the program. Not part of the wheel."""
