"""A fitted calibrator where smallcal is not: torch, ONNX, plain Python, SQL."""
