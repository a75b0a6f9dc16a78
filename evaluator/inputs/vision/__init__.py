"""Image encoders, and images of requests."""
