"""The paper's own numbers, and how close a run on one's own logits comes to them."""
