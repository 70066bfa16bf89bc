"""What calls are composed of where IR has no operator for them: of real numbers for complex ones, and so on."""
