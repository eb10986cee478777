"""What to do with this much data: select a method, audit a fit, plan labels, certify a threshold."""
