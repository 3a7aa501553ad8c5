"""Many independent pieces of work at once: in this process, in spawned ones, or on a Ray cluster.

One seam for all three (:class:`~prfaas_env.parallel.executor.Executor`): a piece depends on nothing but its item, so
that results are the same wherever and in whatever order they are made.
"""
