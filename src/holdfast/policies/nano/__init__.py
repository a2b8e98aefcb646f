"""`nano`: a small vision-language-action policy that learns from scratch on one GPU, or patiently on a CPU.

LeRobot finds its parts by their names: `configuration_nano`, `modeling_nano`, `processor_nano`.
"""
