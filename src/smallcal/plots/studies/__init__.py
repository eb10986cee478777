"""Plots of finished studies."""
