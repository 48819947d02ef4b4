"""What the user chooses: frozen values."""
