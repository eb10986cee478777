"""``python -m smallcal``: the command line."""

from smallcal.cli import main

if __name__ == "__main__":
    main()
