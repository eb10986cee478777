"""Our calibrators where other packages expect theirs."""
