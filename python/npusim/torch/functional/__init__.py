"""Programs that write nothing they are given: PyTorch makes them, told before of what it does not follow."""
