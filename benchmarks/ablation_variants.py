"""What was tried on the way to the default, for `benchmarks/ablation.py`.

Each section is a function of a :class:`Case` that gives (name, result) pairs: the log-odds of the
confidence on the test rows, or for tails the probabilities. What a method's options can say is
made with ``sc.make``; the rest goes through the same fits with other columns or another prior.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

import smallcal as sc
from smallcal.calibrators.discipline import Discipline
from smallcal.calibrators.maps import Prior, Split, fit_temperature, loss_and_slope
from smallcal.calibrators.maps.gate import evidence, evidence_needed
from smallcal.calibrators.maps.groups import group_members, group_thresholds
from smallcal.calibrators.maps.regressed import fit_regressed
from smallcal.calibrators.maps.regressed_fit import RIDGE
from smallcal.calibrators.maps.temperature import ANCHOR_SCALE, POOLED_SCALE
from smallcal.calibrators.objectives import Gaps, log_odds, moments, objective, sigmoid
from smallcal.calibrators.signals import STATISTICS, Observed, fit_signal, row_blocks
from smallcal.calibrators.softmax import tailed_softmax
from smallcal.data.predictions import Predictions

#: The method that every row of the first tables is compared with: the default without its tail,
#: which does not touch confidences, and without its gate, which has a table of its own.
CHOSEN = "signal-linear"
BCE, NLL = objective("bce"), objective("nll")
CARE = Discipline()
#: So weak that it is no prior.
WEAK = 100.0
SCALES = (0.01, 0.02, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2)
POSTERIOR_DRAWS = 32
#: Squares of a standardised statistic beyond this say no more than it.
SQUARE_LIMIT = 2.5
GARROTE = 2.0
CLASS_PRIOR_SHARE = 0.05


class Part:
    """Logits and labels with what fits and signals read of them."""

    def __init__(self, logits, labels):
        self.preds = Predictions.of(logits, labels)
        self.gaps = Gaps.of(self.preds)
        self.seen = Observed.of(self.preds, self.gaps, moments(self.gaps, 1.0), CARE)


class Case:
    """One draw of the validation rows of a model, and its test rows."""

    def __init__(self, fit, test):
        self.fit, self.test = fit, test

    def make(self, name, **options):
        """Fit a method of the library on the draw."""
        return sc.make(name, **options).fit(self.fit.preds.logits, self.fit.preds.labels)

    def temperature(self, name, **options):
        """Return a method's temperatures of the test rows."""
        return self.make(name, **options).temperature(self.test.preds.logits)

    def odds(self, temperature):
        """Return the log-odds of the test rows' confidence."""
        return log_odds(self.test.gaps, 1 / temperature)

    def of(self, name, **options):
        """Return those log-odds under a method."""
        return self.odds(self.temperature(name, **options))

    @cached_property
    def raw(self):
        """The log-odds of the raw model."""
        return log_odds(self.test.gaps, 1.0)

    @cached_property
    def chosen(self):
        """The chosen method, fitted."""
        return self.make(CHOSEN)

    @cached_property
    def chosen_temperature(self):
        """Its temperatures of the test rows."""
        return self.chosen.temperature(self.test.preds.logits)

    @cached_property
    def anchor(self):
        """The temperature by log-likelihood, that others are drawn towards."""
        return fit_temperature(
            NLL, self.fit.gaps, bounds=CARE.bounds, prior=Prior(1.0, ANCHOR_SCALE)
        ).value

    def pooled(self, scale):
        """Return one temperature for all, drawn towards the anchor."""
        prior = Prior(self.anchor, scale)
        return fit_temperature(BCE, self.fit.gaps, bounds=CARE.bounds, prior=prior)

    @cached_property
    def statistics(self):
        """The six statistics in units of their spread: of the draw, and of the test rows."""
        found = fit_signal("statistics", self.fit.seen, statistics=STATISTICS)
        return found.scores, found.signal.scores(self.test.seen.rows)

    @cached_property
    def white(self):
        """The statistics turned so that an independent prior on them is the spread prior."""
        return whitened(*self.statistics)

    @cached_property
    def averaged(self):
        """The log-odds of the chosen method's confidence, averaged over its posterior."""
        return _averaged(self, 0.05)

    def groups(self, n_groups):
        """Return group membership by cross-fitted risk, (n, K) each; None without a router."""
        found = fit_signal("risk", self.fit.seen, statistics=STATISTICS, scale="probability")
        if found.signal.kind == "none":
            return None
        cuts = group_thresholds(found.scores, n_groups)
        both = found.scores, found.signal.scores(self.test.seen.rows)
        return tuple(np.eye(n_groups)[group_members(scores, cuts)] for scores in both)

    def regress(self, columns, *, scale, prior="independent"):
        """Fit the library's regressed map on any columns."""
        anchor = Prior(self.anchor, POOLED_SCALE)
        parts = self.fit.preds, self.fit.gaps, BCE, self.pooled(POOLED_SCALE)
        split = Split(*parts, columns, CARE, anchor)
        return fit_regressed(split, prior_scale=scale, prior=prior).map

    def regressed(self, columns, **prior):
        """Return the temperatures of the test rows, from (draw's, test rows') columns."""
        return self.regress(columns[0], **prior)(columns[1])


def whitened(fit, test):
    root = np.linalg.cholesky(fit.T @ fit / len(fit) + RIDGE * np.eye(fit.shape[1]))
    return np.linalg.solve(root, fit.T).T, np.linalg.solve(root, test.T).T


def joined(one, other):
    return tuple(np.column_stack(pair) for pair in zip(one, other, strict=True))


def one_temperature(case):
    yield "`ts-nll`: by log-likelihood (drawn with scale 0)", case.of("ts-nll")
    for scale in (0.05, 0.1, 0.2):
        found = np.full(case.test.gaps.n, case.pooled(scale).value)
        yield f"drawn towards the NLL temperature, {scale}", case.odds(found)
    yield "`tva-ts`: not drawn", case.of("tva-ts")


def shrunk_groups(case):
    yield "`srts-bce`: 3 groups, not drawn", case.of("srts-bce")
    for count in (3, 5, 10):
        for scale in (0.05, 0.1, 0.2):
            odds = case.of("srts-shrunk", n_groups=count, prior_scale=scale)
            yield f"{count} groups, prior {scale}", odds
    for count in (5, 10):
        groups = case.groups(count)
        for scale in (0.05, 0.1):
            yield f"{count} groups, random walk {scale}", case.odds(_walk(case, groups, scale))


def _walk(case, groups, scale):
    """Draw each group's log-temperature towards its neighbours' instead of the pooled one."""
    if groups is None:
        return np.full(case.test.gaps.n, case.pooled(POOLED_SCALE).value)
    count = groups[0].shape[1]
    steps = np.tril(np.ones((count, count)))[:, 1:]
    steps -= steps.mean(axis=0)  # the intercept is the mean over groups, and drawn to the anchor
    return case.regressed(tuple(member @ steps for member in groups), scale=scale)


def regressed(case):
    for scale in (0.03, 0.05, 0.1, 0.2):
        odds = case.of(CHOSEN, prior="independent", prior_scale=scale)
        yield f"independent prior {scale}", odds
    for scale in (0.03, 0.07, 0.1):
        yield f"spread prior {scale}", case.of(CHOSEN, prior_scale=scale)
    yield "no prior on the coefficients", case.of(CHOSEN, prior_scale=WEAK)
    yield "spread prior, scale by marginal likelihood", case.odds(_by_evidence(case))
    yield f"spread prior 0.05, mean of {POSTERIOR_DRAWS} posterior draws", case.averaged
    yield "the same in closed form (probit approximation)", _moderated(case, 0.05)
    quadratic = case.regressed(_with_squares(case), scale=0.05, prior="spread")
    yield "spread prior 0.05, squares as well", case.odds(quadratic)
    yield "confidence and margin only", case.of(CHOSEN, statistics=("confidence", "logit_margin"))
    yield "without norm and top logit", case.of(CHOSEN, statistics=STATISTICS[:4])


def _with_squares(case):
    squares = [np.clip(part, -SQUARE_LIMIT, SQUARE_LIMIT) ** 2 for part in case.statistics]
    middle = squares[0].mean(axis=0)
    return joined(case.statistics, [part - middle for part in squares])


def _laplace(case, scale):
    """Return a spread-prior fit with its log marginal likelihood and posterior precision.

    The curvature is Fisher's, which is never negative.
    """
    fitted, columns = case.regress(case.white[0], scale=scale), case.white[0]
    temperature = fitted(columns)
    state = moments(case.fit.gaps, 1 / temperature)
    design = np.column_stack([np.ones(len(columns)), columns])
    weight = state.confidence * state.doubt * (state.mean / temperature) ** 2
    pull = np.r_[1 / POOLED_SCALE**2, np.full(columns.shape[1], 1 / scale**2)]
    precision = (design.T * weight) @ design + np.diag(pull)
    theta = np.r_[fitted.intercept, fitted.coefficients]
    away = theta - np.r_[-np.log(case.anchor), np.zeros(columns.shape[1])]
    loss = len(columns) * loss_and_slope(BCE, case.fit.gaps, temperature)[0] + pull @ away**2 / 2
    likelihood = -loss + (np.log(pull).sum() - np.linalg.slogdet(precision)[1]) / 2
    return fitted, likelihood, precision


def _by_evidence(case):
    tried = [_laplace(case, scale) for scale in SCALES]
    return max(tried, key=lambda entry: entry[1])[0](case.white[1])


def _averaged(case, scale):
    """Return the log-odds of the mean confidence over draws of the posterior."""
    fitted, _, precision = _laplace(case, scale)
    theta = np.r_[fitted.intercept, fitted.coefficients]
    noise = np.random.default_rng(0).standard_normal((POSTERIOR_DRAWS, len(theta)))
    drawn = theta + np.linalg.solve(np.linalg.cholesky(precision).T, noise.T).T
    sure = unsure = 0.0
    for draw in drawn:
        odds = case.odds(np.clip(np.exp(-draw[0] - case.white[1] @ draw[1:]), *CARE.bounds))
        sure, unsure = sure + sigmoid(odds), unsure + sigmoid(-odds)
    return np.log(sure / unsure)


def _moderated(case, scale):
    """Shrink the log-odds by their own variance, as MacKay's approximation of that mean does."""
    fitted, _, precision = _laplace(case, scale)
    columns = case.white[1]
    temperature = fitted(columns)
    state = moments(case.test.gaps, 1 / temperature)
    design = np.column_stack([np.ones(len(columns)), columns])
    root = np.linalg.solve(np.linalg.cholesky(precision), design.T)
    variance = (root**2).sum(axis=0) * (state.mean / temperature) ** 2
    return state.log_odds / np.sqrt(1 + np.pi * variance / 8)


def mixes(case):
    groups = case.groups(5)
    for scale in (0.05, 0.1):
        columns = case.white
        if groups is not None:
            columns = joined(columns, [member * scale / 0.05 for member in groups])
        odds = case.odds(case.regressed(columns, scale=0.05))
        yield f"regressed and 5 groups (prior {scale}) fitted together", odds
    for count in (3, 5):
        other = case.temperature("srts-shrunk", n_groups=count)
        mean = np.sqrt(case.chosen_temperature * other)
        yield f"mean of log T, regressed and {count} groups (prior 0.1)", case.odds(mean)


def gates(case):
    fitted = case.chosen.fitted_
    gain = evidence(case.fit.gaps, fitted.map, fitted.signal.scores(case.fit.seen.rows))
    full = case.odds(case.chosen_temperature)
    enough = gain > evidence_needed(case.fit.gaps.n)
    for least in (2, 2.5, 3, 3.5):
        yield f"fixed threshold {least}", full if gain > least else case.raw
    yield "the rule kept", full if enough else case.raw
    yield "the rule kept, mean of posterior draws", case.averaged if enough else case.raw
    part = max(0.0, 1 - (GARROTE / gain) ** 2) if gain > 0 else 0.0
    yield f"garrote, c = {GARROTE:g}", case.odds(case.chosen_temperature**part)


def tails(case):
    """Give the probabilities of the test rows."""
    logits = case.test.preds.logits
    for name in ("ts-nll", "tva-ts", "tva-ts+tail", "srts-bce+tail", "srts-shrunk+tail"):
        yield f"`{name}`", case.make(name).predict_proba(logits)
    free = case.make("signal-linear+tail", prior_scale=WEAK)
    yield "`signal-linear+tail`, no prior on the coefficients", free.predict_proba(logits)
    top, pooled = case.chosen_temperature, case.chosen.pooled_temperature_
    yield "`signal-linear`: no tail", with_tail(case, top, top)
    rest, wrong = others(case.fit.preds)
    gaps = Gaps.of(rest) if len(wrong) else None
    for scale in (0.1, 0.5, 1.0, WEAK):
        words = f"prior {scale}" if scale < WEAK else "no prior"
        yield f"one tail temperature, {words}", with_tail(case, top, _tail(gaps, pooled, scale))
    shipped = with_tail(case, top, _tail(gaps, pooled, 0.25))
    yield "one tail temperature, prior 0.25", shipped
    yield "tails by 3 groups of confidence, prior 0.1", with_tail(case, top, _three(case, gaps))
    yield "tail relative to the row's temperature", with_tail(case, top, _relative(case, top))
    yield f"class priors mixed in, {100 * CLASS_PRIOR_SHARE:g} %", _with_class_priors(case, shipped)
    gated = case.make("signal-linear+tail+gate")
    yield "`signal-linear+tail+gate`", gated.predict_proba(logits)


def others(preds, temperature=None):
    """Return the wrong rows without the predicted class, and which rows they are."""
    wrong = np.flatnonzero(~preds.correct)
    predicted, labels = preds.predicted[wrong], preds.labels[wrong]
    logits = preds.logits[wrong].astype(np.float64)
    if temperature is not None:
        logits /= temperature[wrong, None]
    keep = np.arange(preds.n_classes) != predicted[:, None]
    rest = Predictions(
        logits=logits[keep].reshape(len(wrong), preds.n_classes - 1),
        labels=labels - (labels > predicted),
        squared_norms=np.zeros(len(wrong)),
    )
    return rest, wrong


def _tail(gaps, centre, scale):
    """Fit a temperature of the classes not predicted, on wrong rows; the centre without any."""
    if gaps is None or not gaps.n:
        return centre
    return fit_temperature(NLL, gaps, bounds=CARE.bounds, prior=Prior(centre, scale)).value


def _three(case, gaps):
    """Return tail temperatures by confidence, drawn towards the common one."""
    common = _tail(gaps, case.chosen.pooled_temperature_, 0.25)
    if gaps is None:
        return common
    confidence = case.fit.seen.rows.statistics[0][~case.fit.preds.correct]
    cuts = group_thresholds(confidence, 3)
    member = group_members(confidence, cuts)
    found = [_tail(gaps.take(np.flatnonzero(member == group)), common, 0.1) for group in range(3)]
    return np.array(found)[group_members(case.test.seen.rows.statistics[0], cuts)]


def _relative(case, top):
    """Return the row's own temperature times one fitted factor."""
    fitted = case.chosen.fitted_
    rest, wrong = others(case.fit.preds, fitted.map(fitted.signal.scores(case.fit.seen.rows)))
    return top * _tail(Gaps.of(rest) if len(wrong) else None, 1.0, 0.25)


def with_tail(case, top, tail):
    """Return probabilities with a temperature for the top and one for the rest, row by row."""
    logits = case.test.preds.logits.astype(np.float64)
    out = np.empty(logits.shape)
    tail = np.broadcast_to(tail, len(logits))
    for block in row_blocks(logits):
        rows = block.rows
        # The library's tail is one number; a column of them goes through the same arithmetic.
        tailed_softmax(block, top[rows], tail[rows, None], out=out[rows])
    return out


def _with_class_priors(case, proba):
    """Give the classes not predicted a little of how often the draw's labels name them."""
    preds = case.fit.preds
    counts = np.bincount(preds.labels, minlength=preds.n_classes) + 1.0
    at_top = np.arange(len(proba)), case.test.preds.predicted
    top = proba[at_top]
    prior = np.tile(counts, (len(proba), 1))
    prior[at_top] = 0
    prior *= ((1 - top) / prior.sum(axis=1))[:, None]
    mixed = (1 - CLASS_PRIOR_SHARE) * proba + CLASS_PRIOR_SHARE * prior
    mixed[at_top] = top
    overtaken = mixed.max(axis=1) > top
    mixed[overtaken] = proba[overtaken]
    return mixed
