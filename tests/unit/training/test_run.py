"""Which figures end a summary."""

from __future__ import annotations

from sweet_rl.training.run import last_figures, mean_loss


def test_the_last_figures_are_those_of_the_last_step_and_the_last_evaluation():
    history = [
        {"loss": 3.0, "margin": 0.0, "step": 1}, {"eval_loss": 2.5, "step": 1},
        {"loss": 2.0, "margin": 1.0, "step": 2, "epoch": 1.0, "learning_rate": 0.1},
        {"eval_loss": 1.5, "eval_margin": 2.0, "step": 2},
    ]  # fmt: skip
    assert last_figures(history) == {"loss": 2.0, "margin": 1.0, "eval_loss": 1.5, "eval_margin": 2.0}
    assert last_figures(history[2:3]) == {"loss": 2.0, "margin": 1.0}
    assert last_figures([]) == {}


def test_the_mean_loss_is_over_steps_also_of_a_training_that_was_continued():
    lines = [{"loss": 3.0, "step": 10}, {"eval_loss": 9.0, "step": 10}, {"loss": 1.0, "step": 15}]
    assert mean_loss(lines) == (10 * 3.0 + 5 * 1.0) / 15
