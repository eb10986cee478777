"""smallcal beside other packages: what each can do, how well, and how fast. See run.py."""
