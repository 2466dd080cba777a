"""The two-layer and the three-layer tree: over a whole matrix, and as caches that move forward from close to close."""
