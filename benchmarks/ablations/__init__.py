"""What each choice in training is worth: small runs that differ in one thing, compared on the validation split."""
