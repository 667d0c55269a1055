"""No change is lost, whatever upstream, time, servers and kills do: played at random, and checked as a whole.

Figures of the run are printed with `-s`; `make model` plays for as long as it is asked to.
"""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from model.machine import Model
from model.stage import Stage

EXAMPLES = 6


def test_what_everybody_got_adds_up(stage: Stage) -> None:
    Model.stage = stage
    before = stage.figures.examples  # of other tests of this process
    limits = settings(
        max_examples=EXAMPLES,
        stateful_step_count=20,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate],  # making a counterexample smaller takes longer than finding one
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Model, settings=limits)
    assert stage.figures.examples - before == EXAMPLES
    print(f"\n{stage.figures}")
