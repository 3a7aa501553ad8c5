"""Registers the environment with Gymnasium, by name only: nothing heavy is imported until it is made."""

from __future__ import annotations

import gymnasium

__all__ = ["ENVIRONMENT_ID", "register_environments"]

ENVIRONMENT_ID = "prfaas_env/PrfaaS-v0"


def register_environments() -> None:
    """Register ``prfaas_env/PrfaaS-v0`` (once)."""
    if ENVIRONMENT_ID not in gymnasium.registry:
        gymnasium.register(
            id=ENVIRONMENT_ID,
            entry_point="prfaas_env.environment.env:PrfaaSEnv",
            vector_entry_point="prfaas_env.environment.vector:PrfaaSVectorEnv",
        )
