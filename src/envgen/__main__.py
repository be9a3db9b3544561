"""`python -m envgen` is the same as the command `envgen`."""

from envgen.cli import main

if __name__ == "__main__":
    main()
