"""How sure a number is: bootstraps, intervals, noise floors, comparisons."""
