"""Artefacts damaged with a knowledge of their structure, and what one that loads must do.

A mutation takes a document, dice and the documents of other methods, and changes the document in
place; bytes are damaged afterwards. Half of what is damaged is then made consistent again, as far
as the loader says what it misses: deeper checks are reached that way.
"""

import contextlib
import copy
import importlib.util
import io
import json
import math
import re
import warnings

import numpy as np

import smallcal as sc
from smallcal import runtime
from smallcal.calibrators import artefact
from smallcal.calibrators.summary import summary
from smallcal.cli.describe import describe
from smallcal.deploy.export import EXPORTERS, to_onnx, to_python
from smallcal.errors import InputError, MissingExtraError
from support.backends import session_of

NUMBERS = [0, -1, 1, 2, 0.5, -0.0, 1e-300, 5e-324, 1e-20, 1e-21, 1e15, 1e29, 1e31, 1e308, -1e308]
NUMBERS += [2**31, 2**63, 10**30, 10**309, -(10**400), math.nan, math.inf, -math.inf]
TEMPERATURES = [1e-20, 1e-9, 0.05, 1, 20.0, 1e6]
LIMITS = [*TEMPERATURES, 0.0, 1e29, -1e29, 1e-90, 1e-300, 699.0, -699.0, 1e15, 0.5, -0.5, 1e-10]
TEXTS = ["", "a", "\ud800", "\udfff\ud800", "\x00", "\u202e", "\U0001f600", "é", "e\u0301"]
TEXTS += ["'; DROP TABLE t; --", '"""\nimport os', "__import__('os')", "\\", "{0}", "x" * 10_000]
OTHERS = [None, True, False, [], {}, [[]], [None], {"kind": "risk"}, "1", "NaN"]
CLASSES = [2, 3, 11, 13, 1000, 20_000, 10**6 + 1, 2 * 10**8, 10**12]
DEPTHS = [1, 2, 5, 31, 33, 300]
PARTS = ["signal", "map", "discipline", "reference", "group_counts", "flags"]
PARTS += ["pooled_temperature", "fit_metrics", "options", "keep_predictions", "input", "data"]


def places(node, path=()):
    """Every path into a document; of long lists the beginning, and nothing very deep."""
    entries = ()
    if len(path) > 9:
        return
    if isinstance(node, dict):
        entries = node.items()
    elif isinstance(node, list):
        entries = enumerate(node[:12])
    for key, child in entries:
        yield (*path, key)
        yield from places(child, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def _put(document, path, value):
    at(document, path[:-1])[path[-1]] = value


def _some_place(document, dice, kind=object):
    """A place where something of this kind stands; the parts are likelier than the rest."""
    paths = [path for path in places(document) if isinstance(at(document, path), kind)]
    inside = [path for path in paths if path[0] in ("signal", "map")]
    return dice.choice(inside if inside and dice.random() < 0.6 else paths)


def replace_value(document, dice, _):
    value = copy.deepcopy(dice.choice([*NUMBERS, *TEXTS, *OTHERS]))
    _put(document, _some_place(document, dice), value)


def change_number(document, dice, _):
    path = _some_place(document, dice, (int, float))
    value = at(document, path)
    changed = [-value, value * 10.0 ** dice.randint(-40, 40), value + 1, float(value), 2 * value]
    _put(document, path, dice.choice([*changed, *NUMBERS, math.nextafter(value, 9)]))


def change_numbers(document, dice, _):
    """A whole list at once."""
    path = _some_place(document, dice, list)
    new = dice.choice(NUMBERS)
    factor = 10.0 ** dice.randint(-60, 40)
    how = dice.choice([lambda old: new, lambda old: old * factor, lambda old: -old])

    def changed(node):
        if isinstance(node, list):
            return [changed(one) for one in node]
        number = isinstance(node, int | float) and not isinstance(node, bool)
        return how(node) if number else node

    _put(document, path, changed(at(document, path)))


def to_the_limit(document, dice, _):
    """Many numbers of a part at once, none beyond what is allowed."""
    part = dice.choice(["signal", "map"])
    often, some = dice.random(), dice.sample(LIMITS, 3)

    def changed(node):
        if isinstance(node, dict):
            return {name: changed(one) for name, one in node.items()}
        if isinstance(node, list):
            return [changed(one) for one in node]
        return dice.choice(some) if isinstance(node, float) and dice.random() < often else node

    document[part] = changed(document[part])


def change_beside(document, dice, _):
    """What stands beside the parts and changes what they do."""
    document["pooled_temperature"] = dice.choice(TEMPERATURES)
    document["keep_predictions"] = dice.random() < 0.5
    document["input"] = dice.choice(["logits", "probabilities"])


def change_text(document, dice, _):
    _put(document, _some_place(document, dice, str), dice.choice(TEXTS))


def delete_key(document, dice, _):
    path = _some_place(document, dice)
    del at(document, path[:-1])[path[-1]]


def rename_key(document, dice, _):
    owners = [(), *(path for path in places(document) if isinstance(at(document, path), dict))]
    owner = at(document, dice.choice(owners))
    if owner:
        key = dice.choice(list(owner))
        owner[dice.choice([key.upper(), f"{key} ", f"{key}_", *TEXTS])] = owner.pop(key)


def swap_part(document, dice, others):
    part, other = dice.choice(PARTS), dice.choice(others)
    document[part] = copy.deepcopy(other[part])


def swap_routing(document, dice, others):
    """A signal and a map that were never fitted together."""
    for part in ("signal", "map"):
        document[part] = copy.deepcopy(dice.choice(others)[part])


def stretch_list(document, dice, _):
    path = _some_place(document, dice, list)
    old = at(document, path)
    longer = [old * 2, old * 90, [*old, *old[-1:]], [*old[:1], *old]]
    _put(document, path, copy.deepcopy(dice.choice([*longer, old[:-1], old[1:], old[:1], []])))


def nest(document, dice, _):
    path = _some_place(document, dice)
    value = at(document, path)
    for _ in range(dice.choice(DEPTHS)):
        value = [value] if dice.random() < 0.5 else {"a": value}
    _put(document, path, value)


def resize(document, dice, _):
    document["n_classes"] = dice.choice(CLASSES)
    if dice.random() < 0.5:
        document["class_names"] = None


def name_classes(document, dice, _):
    n = document["n_classes"] if document.get("n_classes") in range(2, 2000) else 12
    names = [f"class {i}" for i in range(n)]
    names[0] = dice.choice([*TEXTS, "class 1"])
    document["class_names"] = names


def reorder(document, dice, _):
    path = _some_place(document, dice, list)
    old = at(document, path)
    _put(document, path, old[::-1])


MUTATIONS = [replace_value, change_number, change_number, change_numbers, change_text, delete_key]
MUTATIONS += [rename_key, swap_part, swap_part, swap_routing, stretch_list, nest, resize, reorder]
MUTATIONS += [name_classes, to_the_limit, to_the_limit, change_beside]


def mutated(document, dice, others):
    """Return the name of what was done, and the damaged document."""
    document, done = copy.deepcopy(document), []
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        change = dice.choice(MUTATIONS)
        with contextlib.suppress(IndexError, KeyError, OverflowError, TypeError, AttributeError):
            change(document, dice, others)
            done.append(change.__name__)
    return " + ".join(done), document


def written(document, dice):
    """Return a document as bytes, which may be damaged in their turn."""
    raw = json.dumps(document, ensure_ascii=dice.random() < 0.5).encode(errors="surrogatepass")
    if dice.random() > 0.15:
        return raw
    place = dice.randrange(len(raw))
    damage = dice.randrange(5)
    if damage == 0:
        return raw[:place]
    if damage == 1:
        return raw[:place] + bytes([dice.randrange(256)]) + raw[place + 1 :]
    if damage == 2:
        odd = [b"NaN", b"1e999", b"9" * 5000, b"\\ud800", b"[" * 900, b'{"a":' * 90_000, b"\xff"]
        return raw[:place] + dice.choice(odd) + raw[place:]
    if damage == 3:  # a key that appears twice
        keys = re.findall(rb'"\w+": ', raw)
        return raw.replace(b"{", b"{" + dice.choice(keys) + b"1, ", 1)
    return raw[:place] + raw[place // 2 :]


def repaired(file, document):
    """Load; where the loader says which count is wrong, put it right and try again."""
    for _ in range(3):
        try:
            return runtime.load(file)
        except sc.ArtefactError as error:
            said = str(error)
            parameters = re.search(r"the parts have (\d+)$", said)
            groups = re.search(r"group_counts for (\d+) groups", said)
            if parameters:
                document["n_parameters"] = int(parameters[1])
            elif groups:
                document["group_counts"] = [10] * int(groups[1])
            elif "a reference of" in said:
                document["reference"] = None
            elif "lies outside bounds" in said:
                document["discipline"]["bounds"] = [1e-20, 1e6]
            else:
                raise
            file.write_text(json.dumps(document))
    return runtime.load(file)


def require_sound(fitted, document=None):
    """Apply, inspect, serialise, monitor and export a calibrator."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if document is not None:
            require_same(fitted, document)
        require_applied(fitted)
        require_inspected(fitted)
        require_monitored(fitted)
        require_exported(fitted)


def rows_for(fitted, n=5, scale=3.0, kind=np.float64):
    """Proper data: what a model might give, and what is known beside it."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, fitted.n_classes)) * scale
    z[0] = 0
    if fitted.input == "probabilities":
        z = np.exp(z - z.max(axis=1, keepdims=True))
        z /= z.sum(axis=1, keepdims=True)
    features = rng.normal(size=(n, fitted.signal.n_features)) if fitted.signal.n_features else None
    return z.astype(kind), features


def require_same(fitted, document):
    """What was loaded is what is written, and is loaded again."""
    again = fitted.to_dict()
    said = {**artefact.upgraded(document, source="it"), "library": again["library"]}
    assert again == {"reference": None, **said}
    text = artefact.text_of(again)
    twice = runtime.FittedCalibrator.from_dict(artefact.parse(text, source="it"), source="it")
    assert twice.to_dict() == again


def require_applied(fitted):
    for kind, slack in ((np.float64, 1e-8), (np.float32, 1e-4), (np.float16, 1e-4)):
        if fitted.input == "probabilities" and kind is np.float16:
            continue
        z, features = rows_for(fitted, kind=kind)
        p = fitted.predict_proba(z, features=features)
        assert p.dtype == np.promote_types(kind, np.float32)
        assert np.isfinite(p).all(), p
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, atol=slack)
    if fitted.input == "logits":
        z, features = rows_for(fitted, scale=1e4)
        assert np.isfinite(fitted.predict_proba(z, features=features)).all()


def require_inspected(fitted):
    json.dumps(summary(fitted), allow_nan=False)
    with contextlib.redirect_stdout(io.StringIO()) as told:
        describe(fitted)
    assert fitted.method[:20].strip() in told.getvalue() or not fitted.method.isprintable()


def require_monitored(fitted):
    if fitted.reference is None:
        return
    z, features = rows_for(fitted, n=20)
    labels = np.arange(20) % fitted.n_classes
    watching = sc.Monitor(fitted)
    watching.update(z, labels, features)
    assert watching.report().rows == 20
    assert watching.report().labelled == 20


def require_exported(fitted):
    if not fitted.signal.rowwise or fitted.map.kind == "classwise":  # it says so
        for exporter in EXPORTERS.values():
            with contextlib.suppress(InputError, MissingExtraError):
                exporter.make(fitted)
                raise AssertionError("it was exported")
        return
    for name, exporter in EXPORTERS.items():
        if name == "onnx" and not importlib.util.find_spec("onnx"):
            continue
        made = exporter.make(fitted)
        assert name == "onnx" or "\x00" not in made
    if importlib.util.find_spec("torch"):
        require_torch(fitted)
    if fitted.n_classes <= 200:
        require_python(fitted)
    if fitted.n_classes <= 200 and importlib.util.find_spec("onnxruntime"):
        require_onnx(fitted)


def require_torch(fitted):
    import torch

    from smallcal.deploy.export import to_torch

    z, features = rows_for(fitted)
    extra = () if features is None else (torch.tensor(features),)
    found = to_torch(fitted)(torch.tensor(z), *extra).numpy()
    expected = fitted.predict_proba(z, features=features)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def require_onnx(fitted):
    session = session_of(to_onnx(fitted, dtype="float64"))
    z, features = rows_for(fitted)
    given = dict(zip((entry.name for entry in session.get_inputs()), (z, features), strict=False))
    (found,) = session.run(["probabilities"], given)
    expected = fitted.predict_proba(z, features=features)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def require_python(fitted):
    """What the exporter wrote, from a file that may be hostile, gives the same numbers."""
    known = {}
    exec(to_python(fitted), known)
    z, features = rows_for(fitted)
    extra = [()] * len(z) if features is None else [(row,) for row in features.tolist()]
    found = [known["calibrate"](row, *more) for row, more in zip(z.tolist(), extra, strict=True)]
    expected = fitted.predict_proba(z, features=features)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
