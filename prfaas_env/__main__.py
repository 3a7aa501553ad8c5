"""``python -m prfaas_env COMMAND``."""

from prfaas_env.cli.app import main
from prfaas_env.cli.errors import run

if __name__ == "__main__":
    run(main, prog_name="python -m prfaas_env")
