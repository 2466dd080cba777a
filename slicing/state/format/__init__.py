"""What the header of a bucket stores, and what a checkpoint must agree with."""
