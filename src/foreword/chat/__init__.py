"""What a message may say, checked and put into the shape a chat template expects."""
