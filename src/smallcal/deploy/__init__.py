"""Where the model runs: exports, adapters, the drift monitor, applying in parts."""
