"""torch-uncertainty's proofs."""

from __future__ import annotations

import numpy as np

from peers.claims import shows

NAME = "torch-uncertainty"


@shows("logits, as they are", NAME)
def logits(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    scaler = TemperatureScaler()
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("saved arrays, no model object", NAME)
def arrays(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    scaler = TemperatureScaler(model=None)  # a DataLoader of logits and labels
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("a torch model and a DataLoader", NAME)
def torch_model(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    network = torch.nn.Identity()  # yours: whatever gives logits
    scaler = TemperatureScaler(network)
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("temperature scaling", NAME)
def temperature(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    scaler = TemperatureScaler()
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("vector scaling", NAME)
def vector(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import VectorScaler

    scaler = VectorScaler(num_classes=4)
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("matrix scaling, penalised", NAME)
def matrix(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import DirichletScaler

    scaler = DirichletScaler(num_classes=4, lambda_reg=0.01, mu_reg=0.01)
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("isotonic regression", NAME)
def isotonic(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import IsotonicRegressionScaler

    scaler = IsotonicRegressionScaler()
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("histogram binning", NAME)
def histogram(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import HistogramBinningScaler  # also BBQ

    scaler = HistogramBinningScaler()
    scaler.fit(loader, progress=False)
    return scaler(torch.as_tensor(z_test, dtype=torch.float32)).softmax(-1).numpy()


@shows("penalties for training a network", NAME)
def penalty(z, y):
    import torch
    from torch_uncertainty.losses import FocalLoss  # also confidence penalty, Mixup, ...

    logits = torch.as_tensor(z).requires_grad_()
    loss = FocalLoss(gamma=2)(logits, torch.as_tensor(y))
    loss.backward()
    return bool(torch.isfinite(loss)) and bool(logits.grad.abs().sum() > 0)


@shows("ensembles and Bayesian layers", NAME)
def ensembles():
    import torch
    from torch_uncertainty.layers.bayesian import BayesLinear
    from torch_uncertainty.methods import deep_ensembles, mc_dropout

    rows = torch.randn(5, 3)
    several = deep_ensembles([torch.nn.Linear(3, 4), torch.nn.Linear(3, 4)])
    dropped = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5))
    many = mc_dropout(dropped, num_estimators=8).eval()(rows)
    layer = BayesLinear(3, 4)
    differ = not torch.equal(layer(rows), layer(rows))
    return several(rows).shape[0] == 10 and many.shape[0] == 40 and differ


@shows("ECE in 15 equal-width bins", NAME)
def ece15(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import CalibrationError

    metric = CalibrationError(task="multiclass", num_bins=15, num_classes=4)
    return metric(torch.as_tensor(p_test), torch.as_tensor(y_test))


@shows("ECE in bins of equal mass", NAME)
def equal_mass(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import AdaptiveCalibrationError

    metric = AdaptiveCalibrationError(task="multiclass", num_bins=15, num_classes=4)
    return metric(torch.as_tensor(p_test), torch.as_tensor(y_test))


@shows("ECE by class", NAME)
def by_class(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import ClasswiseCalibrationError

    metric = ClasswiseCalibrationError(num_classes=4, num_bins=15)
    return metric(torch.as_tensor(p_test), torch.as_tensor(y_test))


@shows("smooth ECE", NAME)
def smooth(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import SmoothCalibrationError

    metric = SmoothCalibrationError()
    return metric(torch.as_tensor(p_test, dtype=torch.float32), torch.as_tensor(y_test))


@shows("log-loss and Brier score", NAME)
def proper(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import BrierScore, CategoricalNLL

    rows = torch.as_tensor(p_test), torch.as_tensor(y_test)
    return CategoricalNLL()(*rows), BrierScore(num_classes=4)(*rows)


@shows("risk-coverage (AURC)", NAME)
def aurc(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import AURC  # also AUGRC, risk at coverage, ...

    return AURC()(torch.as_tensor(p_test), torch.as_tensor(y_test))


@shows("reliability diagram", NAME)
def diagram(p_test, y_test):
    import torch
    from torch_uncertainty.metrics import CalibrationError

    metric = CalibrationError(task="multiclass", num_bins=15, num_classes=4)
    metric.update(torch.as_tensor(p_test), torch.as_tensor(y_test))
    return metric.plot()[0]


@shows("prediction sets, split conformal", NAME)
def sets(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import ConformalClsTHR  # also APS and RAPS

    cal = ConformalClsTHR(alpha=0.1, model=torch.nn.Identity())
    cal.fit(loader)
    return cal.conformal(torch.as_tensor(z_test, dtype=torch.float32)).numpy()


@shows("regression with uncertainty", NAME)
@shows("conformal regression", NAME)
def conformal_regression():
    import torch
    from torch.utils.data import DataLoader, TensorDataset
    from torch_uncertainty.post_processing import ConformalRegCQR

    rng = np.random.default_rng(0)
    ends = torch.as_tensor(np.tile([-1.0, 1.0], (900, 1)), dtype=torch.float32)
    truth = torch.as_tensor(rng.normal(size=900), dtype=torch.float32)  # 90 % is ±1.64
    cal = ConformalRegCQR(alpha=0.1, model=torch.nn.Identity())
    cal.fit(DataLoader(TensorDataset(ends[:600], truth[:600]), batch_size=200))
    found = cal(ends[600:])
    inside = (found[:, 0] <= truth[600:]) & (truth[600:] <= found[:, 1])
    return bool(0.84 < inside.float().mean() < 0.97)


@shows("a file of its own, read back", NAME)
def saved(loader, z_test, folder):
    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    scaler = TemperatureScaler()
    scaler.fit(loader, progress=False)
    torch.save(scaler.state_dict(), folder / "scaler.pt")
    again = TemperatureScaler(torch.nn.Identity())
    again.load_state_dict(torch.load(folder / "scaler.pt", weights_only=True))
    rows = torch.as_tensor(z_test, dtype=torch.float32)
    return scaler(rows).numpy(), again(rows).numpy()


@shows("pickled, read back", NAME)
def pickled(loader, z_test):
    import pickle

    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    scaler = TemperatureScaler()
    scaler.fit(loader, progress=False)
    rows = torch.as_tensor(z_test, dtype=torch.float32)
    return scaler(rows).numpy(), pickle.loads(pickle.dumps(scaler))(rows).numpy()


@shows("a torch module", NAME)
def module(loader, z_test):
    import torch
    from torch_uncertainty.post_processing import TemperatureScaler

    scaler = TemperatureScaler()
    scaler.fit(loader, progress=False)
    rows = torch.as_tensor(z_test, dtype=torch.float32)
    together = torch.nn.Sequential(torch.nn.Identity(), scaler)
    return scaler(rows).numpy(), together(rows).numpy()
