"""Evaluate policies on scenarios: ``python evaluate.py --policies A,B --scenarios S,T --seeds N --out DIR``."""

from prfaas_env.cli.errors import run
from prfaas_env.cli.evaluating import command as main

if __name__ == "__main__":
    run(main, prog_name="evaluate.py")
