"""Training: a recipe, images, a model, and a folder in which the run is kept."""
