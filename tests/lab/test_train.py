"""A training run: same bits every time, probes that change none, numbers that are right."""

import gc
import math
import weakref

import msgspec
import pytest
import torch

from softgate import acts
from softgate.lab import probes
from softgate.lab.model import LanguageModel
from softgate.lab.spec import ModelSpec, TrainSpec, TrialSpec
from softgate.lab.train import Text, evaluate, run, spikes

MODEL = ModelSpec(d_model=24, layers=2, heads=2, context=16)
TRAIN = TrainSpec(batch=4, curve_points=4, curve_tokens=256, final_tokens=512)


def text() -> Text:
    generator = torch.Generator().manual_seed(0)
    # A first-order chain: each byte is the one before plus 0, 1 or 2, so that there is something to learn.
    steps = torch.randint(3, (8000,), generator=generator)
    data = (steps.cumsum(0) % 64).to(torch.uint8)
    return Text(data[:7000], data[7000:])


def spec(arm: str = "relu", **changes: object) -> TrialSpec:
    base = TrialSpec(
        arm=arm, phase="final", seed=0, order_seed=0, steps=30, source="s", lr=1e-2, model=MODEL, train=TRAIN, text="t"
    )
    return msgspec.structs.replace(base, **changes)


def silent(step: int, loss: float) -> None:
    pass


def test_the_same_spec_gives_the_same_bits_also_after_other_trials() -> None:
    first = run(spec(), text(), silent)
    run(spec("swiglu", seed=5, order_seed=5), text(), silent)
    torch.rand(7)
    again = run(spec(), text(), silent)
    assert first["loss"] == again["loss"]
    assert first["curve"]["loss"] == again["curve"]["loss"]
    assert first["health"] == again["health"]
    assert first["status"] == "ok"
    assert first["loss"] < first["curve"]["loss"][0]


@pytest.mark.parametrize("arm", ["relu", "swiglu", "prelu"])
def test_probes_change_no_bit(arm: str) -> None:
    trial = spec(arm, model=msgspec.structs.replace(MODEL, dropout=0.2))
    with_probes, without = run(trial, text(), silent), run(trial, text(), silent, measure=False)
    assert with_probes["loss"] == without["loss"]
    assert with_probes["curve"]["loss"] == without["curve"]["loss"]
    assert "health" in with_probes
    assert "health" not in without


@pytest.mark.parametrize("change", [{"seed": 1}, {"order_seed": 1}, {"lr": 2e-2}, {"steps": 31}, {"arm": "gelu"}])
def test_every_setting_changes_the_result_and_the_key(change: dict[str, object]) -> None:
    a, b = spec(), spec(**change)
    assert a.key != b.key
    assert run(a, text(), silent)["loss"] != run(b, text(), silent)["loss"]


def test_the_phase_is_a_label_and_not_part_of_the_key() -> None:
    assert spec().key == spec(phase="pilot").key


def test_the_order_seed_alone_keeps_the_start() -> None:
    a, b = run(spec(), text(), silent), run(spec(order_seed=1), text(), silent)
    assert a["curve"]["loss"][0] == b["curve"]["loss"][0]
    assert a["curve"]["loss"][1] != b["curve"]["loss"][1]


def test_a_rate_that_explodes_is_divergence_and_not_an_error() -> None:
    result = run(spec(lr=1e6), text(), silent)
    assert result["status"] == "diverged"
    assert result["reason"]
    assert "health" not in result


def test_evaluation_is_the_mean_over_windows() -> None:
    model = LanguageModel(MODEL, "relu", seed=0)
    windows = text().windows(256, 16)
    logits = model(windows[:, :-1])
    by_hand = -logits.log_softmax(-1).gather(-1, windows[:, 1:, None]).mean()
    assert evaluate(model, windows, batch=3) == pytest.approx(float(by_hand.detach()), rel=1e-6)
    assert model.training


def test_windows_stay_inside_the_held_out_text() -> None:
    windows = text().windows(10_000, 16)
    assert windows.shape[1] == 17
    held = text().held_out.long()
    assert torch.equal(windows[0], held[:17])
    assert windows.shape[0] == (1000 - 17) // 16


def test_health_counts_what_it_says() -> None:
    model = LanguageModel(MODEL, "relu", seed=0)
    up = model.ffns()[0].up_proj
    with torch.no_grad():
        up.weight[:5] = 0.0  # z = 0: never positive, slope 0
    windows = text().windows(256, 16)[:, :-1]
    found = probes.health(model, "relu", windows, batch=4)
    first = found["layers"][0]
    assert first["units"] == 96
    assert first["dead"] == pytest.approx(5 / 96)
    assert first["saturated"] == pytest.approx(5 / 96)
    assert found["tokens"] == windows.numel()
    assert found["firing_upper"] == pytest.approx(3 / windows.numel(), rel=0.01)
    # ReLU's slope is 0 or 1: every threshold gives the share of pre-activations at or below zero.
    assert len(set(first["small_slope"].values())) == 1
    h = []
    hook = up.register_forward_hook(lambda m, i, o: h.append(o))
    with torch.no_grad():
        model(windows)
    hook.remove()
    z = torch.cat([x.reshape(-1, 96) for x in h]).double()
    hidden = z.clamp(min=0)
    assert first["small_slope"]["1e-3"] == pytest.approx(float((z <= 0).double().mean()))
    assert first["pre_rms"] == pytest.approx(float(z.square().mean().sqrt()), rel=1e-6)
    assert first["rms"] == pytest.approx(float(hidden.square().mean().sqrt()), rel=1e-6)
    centred = hidden - hidden.mean()
    assert first["kurtosis"] == pytest.approx(float(centred.pow(4).mean() / centred.square().mean() ** 2), rel=1e-6)


@pytest.mark.parametrize("arm", acts.names() + acts.names(gated=True))
def test_health_of_every_record(arm: str) -> None:
    model = LanguageModel(MODEL, arm, seed=0)
    found = probes.health(model, arm, text().windows(256, 16)[:, :-1], batch=8)
    for layer in found["layers"]:
        shares = list(layer["small_slope"].values())
        assert shares == sorted(shares, reverse=True)
        assert all(0 <= share <= 1 for share in [layer["dead"], layer["saturated"], *shares])
        assert math.isfinite(layer["rms"])


def test_saved_bytes_count_what_backward_keeps() -> None:
    windows = text().windows(256, 16)[:, :-1]
    relu, bigger = (LanguageModel(msgspec.structs.replace(MODEL, layers=n), "relu", seed=0) for n in (1, 2))
    one, two = (probes.saved_bytes_per_token(model, windows) for model in (relu, bigger))
    # A block keeps at least its FFN's pre-activation and hidden values: 2 * 96 floats a token.
    assert two - one >= 2 * 96 * 4
    state = torch.get_rng_state()
    probes.saved_bytes_per_token(relu, windows)
    assert torch.equal(state, torch.get_rng_state())


def test_saved_tensors_are_let_go() -> None:
    model = LanguageModel(MODEL, "relu", seed=0)
    windows = text().windows(256, 16)[:, :-1]
    seen = []
    block = model.blocks[0]
    hook = block.register_forward_hook(lambda m, i, o: seen.append(weakref.ref(o)))
    probes.saved_bytes_per_token(model, windows)
    hook.remove()
    gc.collect()
    assert [ref() for ref in seen] == [None]


def test_spikes_are_counted_against_the_steps_before() -> None:
    calm = [2.0 + 0.01 * (i % 7) for i in range(200)]
    assert spikes(calm) == 0
    jump = calm.copy()
    jump[120] = 3.0
    assert spikes(jump) == 1
    assert spikes([3.0, *calm[1:40]]) == 0  # no window yet: nothing to compare with
