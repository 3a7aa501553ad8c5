"""Search over control sequences on the compiled engine: what `hindsight` and `mpc` plan with.

``rollout`` plays a sequence of controls from a snapshot to the end, ``improve`` looks for a better sequence, ``branch``
gives a run another future.
"""
