"""The plan and the predicted cost of a query, which `explain` prints. No Spark."""
