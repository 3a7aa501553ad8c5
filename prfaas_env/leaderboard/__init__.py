"""The leaderboard: submissions that can be played again, one score, and the page that ranks them."""
