"""What holds while PyTorch traces a model: what of it is followed, what is noted, and that it stays as it was."""
