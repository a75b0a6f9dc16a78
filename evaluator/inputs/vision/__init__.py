"""Image encoders and the images that requests carry: hyper-parameters, sizes after preprocessing, weights."""
