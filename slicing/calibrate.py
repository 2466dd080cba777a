"""Measure the coefficients of this machine for predictions: `python -m slicing.calibrate`."""

from slicing.cli.calibrate import main

if __name__ == "__main__":
    raise SystemExit(main())
