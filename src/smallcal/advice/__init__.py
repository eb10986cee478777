"""What to do with this much data: select a method, audit, plan labels, certify; what to cite."""
