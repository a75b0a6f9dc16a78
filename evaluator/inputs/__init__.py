"""The inputs that a request names: models, devices, plans, formats, workloads. Read and checked here, never priced."""
