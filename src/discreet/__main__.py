"""``python -m discreet``: the command line, where the script is not on the path."""

from discreet.cli.main import main

if __name__ == "__main__":
    main()
