"""The command line: one module a command, each a click command that ``app`` loads when it is asked for."""
