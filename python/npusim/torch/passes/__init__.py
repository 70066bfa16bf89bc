"""What is done to a program before it is written: a file for each change, and the list of them, order.py."""
