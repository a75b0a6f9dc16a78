"""Device profiles that come with the program, one YAML file each, and their loader."""
