"""Training of policies with Stable-Baselines3 (extra ``train``); nothing else of the package imports this."""
