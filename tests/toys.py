"""The toy tasks that tests train on, and the smallest nano that can learn them."""

TASKS = {"reach": ("left",), "lift": ("left", "right"), "sweep": ("left",)}
TINY = (
    "--policy.image_size=32",
    "--policy.width=64",
    "--policy.heads=2",
    "--policy.encoder_layers=1",
    "--policy.decoder_layers=1",
    "--policy.chunk_size=8",
    "--policy.n_action_steps=4",
)


def stream_text(names=tuple(TASKS), embodiment="piper_x_pair"):
    """A stream file with the given toy tasks."""
    lines = ['name = "toy"', f'embodiment = "{embodiment}"' if embodiment else ""]
    for name in names:
        lines += ["[[task]]", f'name = "{name}"', f'instruction = "Please {name}."', f"arms = {list(TASKS[name])}"]
        lines += [f'dataset = "{name}"']
    return "\n".join(lines) + "\n"
