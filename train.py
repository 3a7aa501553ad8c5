"""Train a policy: ``python train.py --algo ppo --scenario S --timesteps N --n-envs K --seed I --out DIR``."""

from prfaas_env.cli.errors import run
from prfaas_env.cli.training import command as main

if __name__ == "__main__":
    run(main, prog_name="train.py")
