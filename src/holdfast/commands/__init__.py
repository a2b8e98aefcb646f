"""The subcommands of `holdfast`, one module each, imported only when called."""
