"""What a query will do and cost, before it runs; `explain` prints it. No Spark."""
