"""The paper's models as one file: what to train, what to take logits of, what that costs."""
