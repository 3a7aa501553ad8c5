"""What a scenario or a trace holds, before anything is simulated: statistics, a page of pictures, documentation."""
