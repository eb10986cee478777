"""The research side of smallcal: studies, the paper's experiments, images, training.

Installed beside :mod:`smallcal`, it adds commands and methods through the entry points
``smallcal.commands`` and ``smallcal.methods``.
"""
