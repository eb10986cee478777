"""netcal's proofs. It takes probabilities; they are float64 here, see the page on float32."""

from __future__ import annotations

import numpy as np

from peers.claims import shows

NAME = "netcal"


@shows("probabilities", NAME)
def probabilities(p, y, p_test):
    from netcal.scaling import TemperatureScaling

    model = TemperatureScaling()
    model.fit(p, y)
    return model.transform(p_test)


@shows("saved arrays, no model object", NAME)
def arrays(p, y, p_test):
    from netcal.scaling import LogisticCalibration

    model = LogisticCalibration()
    model.fit(p, y)
    return model.transform(p_test)


@shows("one number per item (a score)", NAME)
def one_number(score, right, score_test):
    from netcal.scaling import BetaCalibration

    model = BetaCalibration()
    model.fit(score, right)
    return model.transform(score_test)


@shows("regression with uncertainty", NAME)
def regression():
    from netcal.regression import VarianceScaling

    rng = np.random.default_rng(0)
    mean = rng.normal(size=500)
    truth = mean + rng.normal(size=500)  # the model says 0.2 and it is 1
    model = VarianceScaling()
    model.fit((mean, np.full(500, 0.2)), truth)
    said = model.transform((mean, np.full(500, 0.2)))
    return bool(abs(float(np.mean(said)) - 1) < 0.2)


@shows("boxes of object detection", NAME)
def boxes():
    from netcal.scaling import LogisticCalibration

    rng = np.random.default_rng(0)
    rows = rng.uniform(0.05, 0.95, size=(900, 3))  # confidence, x, y of each box
    hit = (rng.random(900) < rows[:, 0] * rows[:, 1]).astype(int)
    model = LogisticCalibration(detection=True)
    model.fit(rows, hit)
    q = model.transform(rows)
    return bool(((q - hit) ** 2).mean() < ((rows[:, 0] - hit) ** 2).mean())


@shows("temperature scaling", NAME)
def temperature(p, y, p_test):
    from netcal.scaling import TemperatureScaling

    model = TemperatureScaling()
    model.fit(p, y)
    return model.transform(p_test)


@shows("vector scaling", NAME)
def vector(p, y, p_test):
    from netcal.scaling import LogisticCalibration

    model = LogisticCalibration()
    model.fit(p, y)
    return model.transform(p_test)


@shows("isotonic regression", NAME)
def isotonic(p, y, p_test):
    from netcal.binning import IsotonicRegression

    model = IsotonicRegression()
    model.fit(p, y)
    return model.transform(p_test)


@shows("histogram binning", NAME)
def histogram(p, y, p_test):
    from netcal.binning import HistogramBinning  # also BBQ and ENIR

    model = HistogramBinning()
    model.fit(p, y)
    return model.transform(p_test)


@shows("Platt or beta, class by class", NAME)
def beta(p, y, p_test):
    from netcal.scaling import BetaCalibration

    model = BetaCalibration()
    model.fit(p, y)
    return model.transform(p_test)


@shows("posterior of the parameters", NAME)
def posterior(p, y, p_test):
    from netcal.scaling import TemperatureScaling

    model = TemperatureScaling(method="variational", vi_epochs=200)
    model.fit(p, y, random_state=0)
    drawn = model.transform(p_test, num_samples=50, random_state=0)  # (50, n, C)
    return bool(drawn.shape[0] == 50 and drawn.std(axis=0).max() > 0)


@shows("penalties for training a network", NAME)
def penalty(z, y):
    import torch
    from netcal.regularization import ConfidencePenalty  # also MMCE and DCA

    logits = torch.as_tensor(z).requires_grad_()
    loss = ConfidencePenalty(weight=0.1)(logits, torch.as_tensor(y))
    loss.backward()
    return bool(torch.isfinite(loss)) and bool(logits.grad.abs().sum() > 0)


@shows("ECE in 15 equal-width bins", NAME)
def ece15(p_test, y_test):
    from netcal.metrics import ECE

    return ECE(15).measure(p_test, y_test)


@shows("ECE in bins of equal mass", NAME)
def equal_mass(p_test, y_test):
    from netcal.metrics import ECE

    return ECE(15, equal_intervals=False).measure(p_test, y_test)


@shows("reliability diagram", NAME)
def diagram(p_test, y_test):
    from netcal.presentation import ReliabilityDiagram

    return ReliabilityDiagram(15).plot(p_test, y_test)


@shows("how far a fit varies", NAME)
def varies(p, y, p_test):
    from netcal.scaling import TemperatureScaling

    model = TemperatureScaling(method="variational", vi_epochs=200)
    model.fit(p, y, random_state=0)
    drawn = model.transform(p_test, num_samples=50, random_state=0)  # confidence, 50 times
    return bool(drawn.max(axis=2).std(axis=0).mean() > 0)


@shows("a file of its own, read back", NAME)
def saved(p, y, p_test, folder):
    from netcal.scaling import TemperatureScaling

    model = TemperatureScaling()
    model.fit(p, y)
    model.save_model(str(folder / "netcal.pt"))
    again = TemperatureScaling().load_model(str(folder / "netcal.pt"))
    return model.transform(p_test), again.transform(p_test)


@shows("pickled, read back", NAME)
def pickled(p, y, p_test):
    import pickle

    from netcal.scaling import TemperatureScaling

    model = TemperatureScaling()
    model.fit(p, y)
    return model.transform(p_test), pickle.loads(pickle.dumps(model)).transform(p_test)


@shows("sklearn.base.clone", NAME)
def cloned():
    from netcal.scaling import TemperatureScaling
    from sklearn.base import clone

    return isinstance(clone(TemperatureScaling()), TemperatureScaling)
