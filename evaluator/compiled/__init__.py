"""C of the program, built once by the machine's compiler. Not here: what is written in C, which stands beside its
twin in Python."""
