"""The command line: `python -m slicing --help`."""

from slicing.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
