"""The planner: which threshold and split for this model, hardware, traffic and prices, and is crossing worth it."""
