"""The framework on Spark: the only place that imports pyspark."""
