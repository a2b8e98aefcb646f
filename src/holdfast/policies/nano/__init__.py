"""`nano`: a small vision-language-action policy that is trained from scratch on one GPU, or slowly on a CPU.

LeRobot finds its parts by their names: `configuration_nano`, `modeling_nano`, `processor_nano`.
"""
