"""The commands: one file each, imported only when it is run."""

# By what people do with them.
GROUPS = {
    "whole experiments": {
        "run": "run a named experiment from recording to report: quickstart, single_arm, ...",
        "study": "carry out many runs with different settings and seeds, and compare them",
    },
    "data": {
        "record": "record demonstrations of a simulator's experts as LeRobot datasets",
        "doctor": "check datasets for faults before training",
        "import": "convert older LeRobot datasets and other code's replay buffers",
        "export": "write the episodes a run keeps as a LeRobot dataset, or its pi0.5 for stock LeRobot",
        "cache": "list and remove decoded frames kept between runs",
    },
    "learning": {
        "train": "train a policy on a stream of tasks, one stage after another",
    },
    "results": {
        "evaluate": "run trials of every task after every stage in an arena: the matrix of scores",
        "score": "serve a page on which people score attempts, live or on video, blind to the checkpoint",
        "plan": "show how many more trials each cell needs for a given interval width",
        "metrics": "compute AS, BWT and FWT of a matrix of scores",
        "report": "write one page about runs: matrices, metrics, where tasks break, videos",
    },
    "robots": {
        "bundle": "pack a stage's policy into one folder; check, compare, deploy, roll back",
        "serve": "serve a bundle's policy to robots over a websocket",
        "rollout": "run a policy on the simulated or the real robot, filmed and recorded",
    },
    "simulators": {
        "arena": "list, test and set up simulators, or start one of your own",
        "watch": "make a video of an expert, a policy or a recorded episode, with the rubric beside it",
        "twin": "score and draw the simulated cell's tasks under scripted policies",
    },
    "the shell": {
        "completion": "print a script with which bash, zsh or fish completes commands, flags and names",
    },
}
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
