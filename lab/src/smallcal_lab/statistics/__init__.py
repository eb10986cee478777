"""Statistics of studies: nested resampling, samples, trees."""
