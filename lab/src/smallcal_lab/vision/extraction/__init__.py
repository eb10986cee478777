"""From a model and images to the logits of a cell."""
