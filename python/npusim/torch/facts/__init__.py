"""What any room asks of a traced program, and of the model's lines: whose memory is shown, what depends on what."""
