"""Run the command line as `python -m cachewatch`."""

from cachewatch.cli import main

if __name__ == "__main__":
    main()
