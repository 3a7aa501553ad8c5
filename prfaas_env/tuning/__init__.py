"""Searches the parameters of a policy on the training split, with a budget that is stated (extra ``tune``)."""
