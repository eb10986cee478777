"""Models of images by one string."""
