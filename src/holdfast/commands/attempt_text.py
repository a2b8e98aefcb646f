"""What an attempt of `holdfast rollout` came to, in words."""

from __future__ import annotations

from holdfast.robots.loop import WAITED, Outcome
from holdfast.robots.session import Report

# What a robot did in the steps in which it did not do what the policy wanted, by reason.
_DID = {
    WAITED: "waited {} for an answer",
    "not finite": "stood still for {} because the policy wanted no number",
    "joint limit": "stopped at a joint's limit in {}",
    "speed": "moved slower than wanted in {}",
    "acceleration": "sped up more gently than wanted in {}",
    "lead": "let the arms catch up in {}",
    "workspace": "stayed inside the workspace in {}",
}


def attempt_text(number: int, trials: int, report: Report) -> str:
    """An attempt's score, why it ended, and what was not as the policy wanted it."""
    trial, outcome = report.trial, report.outcome
    said = (
        f"score {trial.score:.0f} of 100" if trial.score is not None else "to be scored" if trial.valid else "not valid"
    )
    lines = [
        f"attempt {number} of {trials}: {said}, {trial.seconds:.1f} s. {outcome.why}".rstrip(),
        _done(outcome),
        f"  {_steps(outcome.slow)} of {outcome.steps} took longer than a control period" if outcome.slow else "",
        f"  {report.folder}" if report.folder else "",
    ]
    return "\n".join(line for line in lines if line)


def _done(outcome: Outcome) -> str:
    done = [_DID[reason].format(_steps(count)) for reason, count in outcome.limited.items()]
    return f"  {', '.join(done)}" if done else ""


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"
