"""Logs of evaluations in JSON lines: fields by path, option log-likelihoods, top-k, judgements."""
