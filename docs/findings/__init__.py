"""``python -m docs.findings``: six questions put to the paper, answered by the closed form and by simulation."""
