"""What the shipped learned policies do: comparison, what they learned, episodes, guard; on the page docs/learned.md."""
