"""smallcal's proofs."""

from __future__ import annotations

import numpy as np

from peers.claims import shows, typed

NAME = "smallcal"


@shows("logits, as they are", NAME)
def logits(z, y, z_test):
    import smallcal as sc

    return sc.Calibrator().fit(z, y).predict_proba(z_test)


@shows("probabilities", NAME)
def probabilities(p, y, p_test):
    import smallcal as sc

    return sc.Calibrator(input="probabilities").fit(p, y).predict_proba(p_test)


@shows("saved arrays, no model object", NAME)
def arrays(z, y, z_test):
    import smallcal as sc

    return sc.TemperatureScaling().fit(z, y).predict_proba(z_test)


@shows("a fitted scikit-learn model", NAME)
def fitted_model(model, X, y, X_test):
    import smallcal as sc

    return sc.CalibratedModel(model, cv="prefit").fit(X, y).predict_proba(X_test)


@shows("an unfitted one, by cross-validation", NAME)
def unfitted_model(X_train, y_train, X_test):
    from sklearn.naive_bayes import GaussianNB

    import smallcal as sc

    return sc.CalibratedModel(GaussianNB(), cv=5).fit(X_train, y_train).predict_proba(X_test)


@shows("a torch model and a DataLoader", NAME)
def torch_model(loader, z_test):
    import torch

    import smallcal as sc

    network = torch.nn.Identity()  # yours: whatever gives logits
    calibrated = sc.calibrate(network, loader)
    return calibrated(torch.as_tensor(z_test, dtype=torch.float32)).detach().numpy()


@shows("one number per item (a score)", NAME)
def one_number(score, right, score_test):
    import smallcal as sc

    return sc.Calibrator(input="score").fit(score, right).predict_score(score_test)


@shows("sample weights in the fit", NAME)
def weights(z, y, weights, z_test):
    import smallcal as sc

    weighted = sc.TemperatureScaling().fit(z, y, sample_weight=weights)
    return weighted.predict_proba(z_test), sc.TemperatureScaling().fit(z, y).predict_proba(z_test)


@shows("groups of samples", NAME)
def by_group(z, y, groups, z_test, X_test):
    import smallcal as sc

    cal = sc.Calibrator().fit(z, y, groups=groups)
    return cal.predict_proba(z_test, groups=np.where(X_test[:, 0] > 0, "a", "b"))


typed(
    "files, from the shell",
    "smallcal fit cal.npz -o cal.json",
    "smallcal apply cal.json new.npy -o p.npy",
)


@shows("temperature scaling", NAME)
def temperature(z, y, z_test):
    import smallcal as sc

    return sc.make("ts-nll").fit(z, y).predict_proba(z_test)


@shows("vector scaling", NAME)
def vector(z, y, z_test):
    import smallcal as sc

    return sc.make("vector-scaling").fit(z, y).predict_proba(z_test)


@shows("matrix scaling, penalised", NAME)
def matrix(z, y, z_test):
    import smallcal as sc

    return sc.make("dirichlet-odir").fit(z, y).predict_proba(z_test)


@shows("a temperature for each sample", NAME)
def per_sample(z, y, z_test):
    import smallcal as sc

    return sc.make("srts-shrunk").fit(z, y).predict_proba(z_test)


@shows("isotonic regression", NAME)
def isotonic(z, y, z_test):
    import smallcal as sc

    return sc.make("isotonic").fit(z, y).predict_proba(z_test)  # scikit-learn's


@shows("histogram binning", NAME)
def histogram(z, y, z_test):
    import smallcal as sc

    return sc.make("histogram").fit(z, y).predict_proba(z_test)  # netcal's


@shows("Venn-Abers", NAME)
def venn_abers(score, right, score_test):
    import smallcal as sc

    cal = sc.Calibrator(method="venn-abers", input="score").fit(score, right)
    return cal.predict_score(score_test)


@shows("richer maps that keep predictions", NAME)
def keeps(z, y, z_test):
    import smallcal as sc

    kept = sc.Calibrator(keep_predictions=True).fit(z, y).predict_proba(z_test)
    return bool((kept.argmax(axis=1) == z_test.argmax(axis=1)).all())


@shows("ECE in 15 equal-width bins", NAME)
def ece15(y_test, p_test):
    import smallcal as sc

    return sc.evaluate(y_test, p_test)["ece15"]


@shows("ECE in bins of equal mass", NAME)
def equal_mass(y_test, p_test):
    import smallcal as sc

    return sc.evaluate(y_test, p_test)["adaece15"]


@shows("ECE by class", NAME)
def by_class(y_test, p_test):
    import smallcal as sc

    return sc.evaluate(y_test, p_test)["cwece15"]


@shows("smooth ECE", NAME)
def smooth(y_test, p_test):
    import smallcal as sc

    return sc.evaluate(y_test, p_test)["smece"]


@shows("log-loss and Brier score", NAME)
def proper(y_test, p_test):
    import smallcal as sc

    found = sc.evaluate(y_test, p_test)
    return found["nll"], found["brier"]


@shows("risk-coverage (AURC)", NAME)
def aurc(y_test, p_test):
    import smallcal as sc

    return sc.evaluate(y_test, p_test)["aurc"]


@shows("reliability diagram", NAME)
def diagram(y_test, p_test):
    from smallcal import plots

    return plots.reliability(y_test, p_test)  # with exact 95 % bands


@shows("interval of a metric", NAME)
def metric_interval(y_test, p_test):
    import smallcal as sc

    row = sc.evaluate(y_test, p_test, ci=True)["ece15"]
    return row.low, row.high


@shows("paired interval of a difference", NAME)
def paired(z, y, z_test, y_test, p_test):
    import smallcal as sc

    after = sc.TemperatureScaling().fit(z, y).predict_proba(z_test)
    found = sc.compare(y_test, {"raw": p_test, "ts": after})
    return found.intervals["ts"]["nll"]


@shows("ECE of a perfect model (noise floor)", NAME)
def floor(y_test, p_test):
    import smallcal as sc

    return sc.evaluate(y_test, p_test, ci=True)["ece15"].floor


@shows("choice of a method by cross-validation", NAME)
def choice(z, y):
    import smallcal as sc

    found = sc.select(z, y, candidates=["none", "ts-nll"])  # by intervals, "none" among them
    return found.choice == "ts-nll"


@shows("how many labels are needed", NAME)
def labels_needed(z, y):
    import smallcal as sc

    found = sc.plan(z, y, method="ts-nll", sizes=[200, 3200])
    return found.rows[-1].size == 3200 and not found.rows[-1].measured


@shows("how far a fit varies", NAME)
def varies(z, y):
    import smallcal as sc

    band = sc.audit(z, y, method="ts-nll", n_refits=20, n_null=0).bands[0]
    return bool(band.temperature.low < band.temperature.high)  # over refits on resamples


@shows("prediction sets, split conformal", NAME)
def sets(z, y, z_test):
    import smallcal as sc

    cal = sc.TemperatureScaling().fit(z[:400], y[:400])
    return sc.prediction_sets(cal, z[400:], y[400:], alpha=0.1).predict(z_test)


@shows("threshold with a guarantee on errors", NAME)
def threshold(z, y, z_test):
    import smallcal as sc

    cal = sc.TemperatureScaling().fit(z[:300], y[:300])
    return sc.certify(cal, z[300:], y[300:], risk=0.3).calibrator.accept(z_test)


@shows("decisions by cost", NAME)
def by_cost(z, y, z_test, y_test, p_test):
    import smallcal as sc

    costs = sc.Costs(wrong=20, review=5)
    after = sc.TemperatureScaling().fit(z, y).predict_proba(z_test)
    found = sc.expected_cost(y_test, after, costs, raw=p_test, n_boot=200)
    return bool(found.cost.point < found.others["raw"].point)


@shows("a file of its own, read back", NAME)
def saved(z, y, z_test, folder):
    import smallcal as sc

    cal = sc.Calibrator().fit(z, y)
    cal.save(folder / "saved.json")
    return cal.predict_proba(z_test), sc.load(folder / "saved.json").predict_proba(z_test)


@shows("pickled, read back", NAME)
def pickled(z, y, z_test):
    import pickle

    import smallcal as sc

    cal = sc.Calibrator().fit(z, y)
    return cal.predict_proba(z_test), pickle.loads(pickle.dumps(cal)).predict_proba(z_test)


@shows("ONNX", NAME)
def onnx(z, y, z_test):
    import onnxruntime

    import smallcal as sc
    from smallcal.deploy.export import to_onnx

    cal = sc.TemperatureScaling().fit(z, y)
    session = onnxruntime.InferenceSession(to_onnx(cal.fitted_))
    rows = {session.get_inputs()[0].name: z_test.astype("float32")}
    return cal.predict_proba(z_test), session.run(["probabilities"], rows)[0]


@shows("a torch module", NAME)
def module(z, y, z_test):
    import torch

    import smallcal as sc

    cal = sc.Calibrator().fit(z, y)
    return cal.predict_proba(z_test), cal.to_torch()(torch.as_tensor(z_test)).detach().numpy()


@shows("plain Python, SQL", NAME)
def plain(z, y, z_test):
    import smallcal as sc
    from smallcal.deploy.export import to_python, to_sql

    cal = sc.TemperatureScaling().fit(z, y)
    file = {"__name__": "cal"}
    exec(to_python(cal.fitted_), file)
    assert "CREATE OR REPLACE MACRO" in to_sql(cal.fitted_)
    return cal.predict_proba(z_test[:9]), [file["calibrate"](row.tolist()) for row in z_test[:9]]


@shows("alarm on drift, error rate held", NAME)
def drift(z, y, z_test):
    import smallcal as sc

    cal = sc.TemperatureScaling().fit(z, y)
    calm, moved = sc.Monitor(cal, alpha=0.01), sc.Monitor(cal, alpha=0.01)
    return moved.update(0.3 * z_test).drifted and not calm.update(z_test).drifted


@shows("adapts to other class frequencies", NAME)
def adapts(z, y, z_test, y_test):
    import smallcal as sc

    cal = sc.TemperatureScaling().fit(z, y)
    now = np.concatenate((z_test[y_test == 0], z_test[y_test != 0][:150]))
    return sc.adapt(cal, now).now[0] > 0.5


@shows("updated by a few new labels", NAME)
def refreshed(z, y, z_test, y_test):
    import smallcal as sc

    cal = sc.TemperatureScaling().fit(z, y)
    return sc.refresh(cal, 4 * z_test[:200], y_test[:200]).applied  # the model was changed


typed(
    "command line for saved logits",
    "smallcal compare cal.npz test.npz --methods none,ts-nll",
)
typed("report as one HTML page", "smallcal report cal.npz test.npz -o report.html")
typed("exit code for a pipeline", "smallcal evaluate test.npz --fail-if 'ece15>5%'")


@shows("sklearn.base.clone", NAME)
def cloned():
    from sklearn.base import clone

    import smallcal as sc

    return clone(sc.Calibrator(method="ts-nll")).get_params()["method"] == "ts-nll"


@shows("any class labels (strings)", NAME)
def strings(X_train, y_train, X_test):
    from sklearn.naive_bayes import GaussianNB

    import smallcal as sc

    named = np.array(["ape", "bee", "cat", "dog"])[y_train]
    return set(sc.CalibratedModel(GaussianNB()).fit(X_train, named).predict(X_test)) <= set(named)
