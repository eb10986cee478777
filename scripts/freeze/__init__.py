"""The frozen collection: its logits, and reference values that smallcal did not compute."""
