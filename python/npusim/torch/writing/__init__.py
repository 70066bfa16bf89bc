"""IR of the calls that are left, and where the model has the weights of what was written."""
