"""What a request names: models, devices, plans, formats, workloads. Read and checked here, priced nowhere in it."""
