"""What the paper says outside the rows of its tables, and what to know about its numbers.

Numbers only, with names of our own. A label that does not start with "tab:" is a section's.
"""

from __future__ import annotations

from typing import Any

from reference_tables import (
    CIFAR_TRIO,
    ECE,
    HIERARCHY,
    TRANSFORMERS,
    VIT,
    VIT3,
    VIT_C,
    Fields,
    cell,
    corrupted,
    difference,
    method,
    methods,
    metric,
    numbers,
    tidy,
)

PAIRED = method("?SRTS-BCE_with_the_groups_of_the_clean_images")
REQUANTIZED = method("?SRTS-BCE_with_thresholds_made_anew_on_each_corrupted_cell")
SRTS = {"method": "srts-bce"}
TVA = {"method": "tva-ts"}
TRIO = "vit-b16+deit-s+swin-t"
CIFAR_NETWORKS = ("resnet20", "resnet32", "resnet44", "resnet56")
BY_NLL = methods(
    "ts-nll srts-nll[n_groups=1] srts-nll sats-logit-nll lts-feature sats-features-nll utemphead"
)
EVERYWHERE = {"dataset": "all", "backbone": "all", "seeds": None, "budget": None}
#: Fitted on sketches; three random splits, so each split is a seed.
SKETCH = {
    **cell("imagenet-sketch", "vit-b16", 3),
    "note": "said to lack clean ImageNet images that other tables use",
}
#: Of a value that is not the metric itself.
MEAN_OF_RESAMPLES = "mean of resamples, not the metric itself"
IMAGES = {"resampled": "seeds>images"}


def said(label: str, study: str, text: str, *parts: Fields, **more: Any) -> Fields:
    """Return an entry for a number that is not in a row of a table."""
    common: Fields = {"table": label, "study": study}
    for part in parts:
        common |= part
    return tidy({**common, **numbers(text), **more})


def named(token: str, unit: str | None = None) -> Fields:
    """Return the fields of a metric with its unit."""
    found = metric(token) or {}
    return found if unit is None else {**found, "unit": unit}


def _clean() -> list[Fields]:
    at = "tab:sota_3seed_summary"
    found = [
        said(at, "clean", "91.00±0.46", VIT, {"method": "none"}, metric("accuracy") or {}),
        said(at, "clean", "[-0.19,+0.12]", VIT, difference("smart-bce"), IMAGES),
    ]
    for groups, text in ((1, "1.65"), (2, "1.07"), (3, "0.96"), (5, "0.94"), (10, "1.01")):
        row = method(f"srts-bce[n_groups={groups}]")
        found.append(said("sec:results-rq2", "k-ablation", text, VIT, row, ECE))
    pairs = {
        ("sec:results-rq2", "pwlinear-3"): "[-0.14,+0.13]",
        ("app:matched-capacity", "tva-ts"): "[-0.88,-0.36]",
        ("app:matched-capacity", "pwlinear-3"): "[-0.17,+0.09]",
        ("app:matched-capacity", "margin-k3"): "[-0.09,+0.08]",
        ("app:matched-capacity", "smart-bce"): "[-0.19,+0.12]",
        ("app:matched-capacity", "qats-bce"): "[-0.51,-0.06]",
    }
    found += [
        said(at, "matched-maps", text, VIT, difference(name), IMAGES)
        for (at, name), text in pairs.items()
    ]
    at = "app:best-per-criterion"
    found += [
        said(
            at,
            "clean",
            "-0.62[-0.88,-0.36]",
            VIT,
            difference("tva-ts"),
            IMAGES,
            other_intervals={"images": [-0.83, -0.41], "three seeds": [-0.88, -0.29]},
            note=MEAN_OF_RESAMPLES,
        ),
        said(
            at,
            "clean",
            "-0.03[-0.19,+0.12]",
            VIT,
            difference("smart-bce"),
            IMAGES,
            note=MEAN_OF_RESAMPLES,
        ),
    ]
    at = "app:router-causality"
    found += [
        said(at, "objective", "0.95±0.28", VIT3, {"method": "srts-softece"}, ECE),
        said(at, "objective", "0.83±0.28", VIT3, SRTS, ECE),
    ]
    found.append(
        said(
            "app:margin-not-sufficient",
            "routing-signal",
            "-0.17[-0.51,+0.15]",
            {**cell("cifar100", "vit-b16+resnet20+resnet32+resnet44+resnet56", 7)},
            difference("margin-k3"),
            resampled="cells",
            note="three seeds of one transformer and four networks, seven cells",
        )
    )
    return found


def _budget() -> list[Fields]:
    at = "app:budget-resampling"
    small = {**VIT, "budget": 250, "draws": 20}
    win = {
        "metric": "top_label_bce",
        "kind": "win-share",
        "against": "tva-ts",
        "unit": "fraction",
    }
    tiny = {**cell("tiny-imagenet", "vit-b16"), "budget": 250, "draws": 10}
    return [
        said(at, "budget", "0.21", small, SRTS, win),
        said(at, "budget", "0.06", small, {"method": "smart-bce"}, win),
        said(at, "budget", "2.61", tiny, {"method": "smart-bce"}, ECE),
        said(at, "budget", "1.64", tiny, {"method": "tva-ts"}, ECE),
    ]


def _shift() -> list[Fields]:
    severe = {**VIT_C, "set": "corrupted-s4-s5"}
    worst = {**VIT_C, "set": "corrupted-s5"}
    at = "app:cifar100c"
    found = [
        said(at, "shift", text, severe, {"method": name}, ECE)
        for name, text in (("srts-bce", "6.79"), ("smart-bce", "7.03"), ("tva-ts", "8.38"))
    ]
    found += [
        said(
            at,
            "paired-clean",
            "5.7864±1.0246",
            VIT_C,
            PAIRED,
            ECE,
            ddof=0,
            per_seed=[4.9579, 7.2301, 5.1711],
        ),
        said(at, "paired-clean", "8.7102", severe, PAIRED, ECE),
        said(at, "requantize", "4.63±0.84", VIT_C, SRTS, ECE),
        said(at, "requantize", "5.73±1.08", VIT_C, REQUANTIZED, ECE),
        said(at, "requantize", "7.99", worst, SRTS, ECE),
        said(at, "requantize", "10.30", worst, REQUANTIZED, ECE),
        said(at, "requantize", "0.0431", VIT_C, SRTS, named("eaurc")),
        said(at, "requantize", "0.0434", VIT_C, REQUANTIZED, named("eaurc")),
        said(
            at,
            "shift",
            "-0.1218[-0.1695,-0.0755]",
            VIT_C,
            difference("smart-bce"),
            resampled="cells",
        ),
    ]
    at = "sec:results-protocol-c"
    found.append(said(at, "shift", "15.45", VIT_C, {"method": "sats-logit-nll"}, ECE))
    found.append(
        said(
            at,
            "shift",
            "0.93",
            VIT_C,
            {**difference("smart-bce"), "kind": "share-below-zero", "unit": "fraction"},
            resampled=HIERARCHY,
        )
    )
    at = "app:best-per-criterion"
    eaurc = {**difference("smart-bce"), "metric": "eaurc"}
    found += [
        said(
            at,
            "paired-clean",
            "-1.16[-1.41,-0.91]",
            VIT_C,
            difference(PAIRED["paper_method"]),
            resampled="cells",
        ),
        said(
            at,
            "shift",
            "-0.0010[-0.0011,-0.0009]",
            VIT_C,
            eaurc,
            resampled="cells",
            other_intervals={"corruption types": [-0.0012, -0.0008]},
        ),
        said(
            at,
            "shift",
            "-0.24[-0.33,-0.16]",
            severe,
            difference("smart-bce"),
            resampled="cells",
            other_intervals={"corruption types": [-0.42, -0.07]},
        ),
        said(
            at,
            "shift",
            "-0.12[-0.33,+0.03]",
            VIT_C,
            difference("smart-bce"),
            resampled=HIERARCHY,
            other_intervals={"cells": [-0.17, -0.07], "corruption types": [-0.25, 0.001]},
        ),
    ]
    fifteen = {**VIT_C, "set": "corrupted-15"}
    texts = {"qats-nll": "6.77±0.57", "qats-bce": "5.45±0.70", "srts-bce": "4.91±0.87"}
    found += [
        said("app:matched-capacity", "shift", text, fifteen, {"method": name}, ECE)
        for name, text in texts.items()
    ]
    return found + _heterogeneity() + _other_shifts()


def _heterogeneity() -> list[Fields]:
    at, study = "app:routing-heterogeneity", "heterogeneity"
    gain = difference("srts-bce", first="tva-ts")
    rank = named("?spearman_gain_and_raw_ece", "correlation")
    agree = named("?spearman_gain_over_tva_and_over_smart", "correlation")
    best = named("?corruptions_best_of_19", "count")
    return [
        said(at, study, "+3.47", VIT_C, gain, set="glass_blur"),
        said(at, study, "-2.20", VIT_C, gain, set="impulse_noise"),
        said(at, study, "-0.68", VIT_C, SRTS, rank),
        said(at, study, "0.96", VIT_C, SRTS, agree),
        said(at, study, "12", VIT_C, SRTS, best),
    ]


def _other_shifts() -> list[Fields]:
    found = []
    at = "app:convnet-c100c"
    for name, gain, share in (("resnet50", "-4.44", "69"), ("regnety-1.6gf", "-2.16", "72")):
        where = corrupted("cifar100", name)
        high = named("?share_of_group2", "percent")
        found.append(said(at, "shift", gain, where, difference("tva-ts")))
        found.append(said(at, "audit", share, {**where, "set": "corrupted-s5"}, SRTS, high))
    at = "app:tinyc-c10c"
    texts = ("-0.68[-0.75,-0.62]", "-0.51[-0.57,-0.45]", "-0.54[-0.59,-0.49]")
    for name, text in zip(TRANSFORMERS, texts, strict=True):
        where = corrupted("tiny-imagenet", name)
        found.append(said(at, "shift", text, where, difference("smart-bce"), resampled="cells"))
    ten = corrupted("cifar10", "vit-b16")
    found += [
        said(at, "shift", "3.00", ten, SRTS, ECE),
        said(at, "shift", "3.20", ten, {"method": "smart-bce"}, ECE),
        said(at, "shift", "[-0.55,+0.14]", ten, difference("smart-bce"), resampled="cells"),
    ]
    at = "app:imagenetc"
    five = ("14.99", "1.88±0.26", "1.44±0.03", "2.21±0.24", "1.41±0.06")
    for row, text in zip(methods("none ts-nll tva-ts smart-bce srts-bce"), five, strict=True):
        found.append(said(at, "shift", text, SKETCH, row, ECE))
    found += [
        said(at, "shift", "0.0945", SKETCH, {"method": "smart-bce"}, named("eaurc")),
        said(at, "shift", "0.0983", SKETCH, SRTS, named("eaurc")),
        said(at, "shift", "16.3", SKETCH, {"method": "none"}, named("accuracy")),
    ]
    return found + _natural()


def _natural() -> list[Fields]:
    at, found = "app:natural-shift", []
    for name, text in (("imagenet-r", "+0.66[+0.65,+0.66]"), ("imagenet-a", "+1.40[+1.37,+1.42]")):
        where = {**cell("imagenet1k", "vit-b16", 1), "budget": 1000, "draws": 3, "set": name}
        found.append(said(at, "shift", text, where, difference("tva-ts"), resampled="images"))
    pairs = {
        ("tva-ts", "ts-nll"): ("-0.71[-1.30,-0.10]", "-1.52[-2.13,-0.85]", "-0.74[-1.33,-0.11]"),
        ("srts-bce", "srts-nll"): (
            "-0.95[-1.53,-0.34]",
            "-1.57[-2.24,-0.82]",
            "-0.68[-1.27,-0.06]",
        ),
        ("srts-bce", "tva-ts"): ("-0.27[-0.76,+0.23]", "-0.15[-0.82,+0.55]", "+0.20[-0.29,+0.68]"),
    }
    for (first, against), texts in pairs.items():
        for name, text in zip(TRANSFORMERS, texts, strict=True):
            where = {**cell("imagenet100", name), "set": "imagenet-v2"}
            found.append(
                said(at, "shift", text, where, difference(against, first), resampled="images")
            )
    return found


def _selection() -> list[Fields]:
    ten, quarter = cell("cifar100-10pct", "vit-b16"), cell("cifar100-25pct", "vit-b16")
    found = [
        said("app:lowdata", "clean", text, where, {"method": name}, ECE)
        for where, name, text in (
            (ten, "tva-ts", "1.37±0.51"),
            (ten, "smart-bce", "1.51±0.29"),
            (ten, "srts-bce", "1.71±0.34"),
            (quarter, "smart-bce", "0.96"),
            (quarter, "tva-ts", "0.98"),
            (quarter, "srts-bce", "1.11"),
        )
    ]
    against = difference("smart-bce")
    found += [
        said("app:lowdata", "clean", "[-0.31,+0.63]", ten, against, resampled="images"),
        said("app:lowdata", "clean", "[-0.26,+0.60]", quarter, against, resampled="images"),
        said("app:lowdata", "clean", "85.6", ten, {"method": "none"}, named("accuracy")),
        said(
            "app:nested-k",
            "nested-k",
            "0.55",
            EVERYWHERE,
            SRTS,
            named("?spearman_calibration_gain_and_test_gain", "correlation"),
            note="15 cells",
        ),
    ]
    rule = method("?K_of_1_or_3_by_the_one-standard-error_rule")
    excess = named("?ece_above_the_better_of_two", "percent")
    regimes = {**EVERYWHERE, "set": "all regimes"}
    found += [
        said("tab:selector", "selector", text, regimes, row, excess, note="mean of 21 regimes")
        for row, text in ((rule, "0.09"), (SRTS, "0.18"), ({"method": "tva-ts"}, "0.59"))
    ]
    formed = {**EVERYWHERE, "set": "regimes the rule was formed on"}
    natural = {**EVERYWHERE, "set": "imagenet-r and imagenet-a"}
    most = named("?largest_ece_above_the_better_of_two", "percent")
    found += [
        said("app:selector", "selector", text, where, row, what)
        for where, row, what, text in (
            (formed, SRTS, excess, "0.048"),
            (formed, rule, excess, "0.061"),
            (natural, rule, excess, "0.25"),
            (natural, SRTS, excess, "1.44"),
            (natural, rule, most, "0.94"),
            (natural, SRTS, most, "5.70"),
        )
    ]
    counted = {
        ("all regimes", "?regimes_helped"): "8",
        ("all regimes", "?regimes_helped_and_kept"): "7",
        ("all regimes", "?regimes_hurt"): "3",
        ("all regimes", "?regimes_hurt_and_avoided"): "2",
    }
    found += [
        said("app:selector", "selector", text, {**EVERYWHERE, "set": where}, rule, named(what))
        for (where, what), text in counted.items()
    ]
    wrong = named("?share_of_three_where_one_is_better", "percent")
    found.append(said("app:selector", "selector", "62", formed, rule, wrong))
    at = "sec:results-cross-dataset"
    scope = {**EVERYWHERE, "cells_of": "tab:cross_dataset_ece_summary", "against": "tva-ts"}
    found += [
        said(at, "scope-map", text, scope, SRTS, named(what), kind="difference")
        for what, text in (("?models_won", "12"), ("?models_lost", "3"))
    ]
    return found


def _audit() -> list[Fields]:
    at, found = "tab:auditability", []
    small = {
        **cell("cifar100", "vit-b16+deit-s+swin-t", 11),
        "budget": 250,
        "draws": 20,
        "note": "220 fits",
    }
    temperatures = (
        (VIT, (".63[.63,.65]", ".73[.73,.74]", ".84[.82,.87]")),
        (small, (".17[.13,.73]", ".76[.69,.80]", ".89[.83,.94]")),
    )
    for where, texts in temperatures:
        for group, text in enumerate(texts):
            what = {**named(f"?temperature{group}", "temperature"), "kind": "median"}
            found.append(said(at, "audit", text, where, SRTS, what, resampled="quartiles of fits"))
    for which, text in ((1, "0.008±0.001"), (2, "0.042±0.007")):
        found.append(said(at, "audit", text, VIT, SRTS, named(f"?threshold{which}", "fraction")))
    shares = {
        "at_bounds": ("0", "0.0"),
        "pooled_groups": ("0", "0.0"),
        "risk_in_order": ("100", "93"),
        "temperatures_in_order": ("100", "64"),
    }
    for name, pair in shares.items():
        for where, text in zip((VIT, small), pair, strict=True):
            what = named(f"?share_of_fits_{name}", "percent")
            found.append(said(at, "audit", text, where, SRTS, what))
    return found


def _occupancy() -> list[Fields]:
    at, found = "tab:auditability", []
    for name, texts in (("clean", ("34", "33", "33")), ("corrupted", ("19", "27", "55"))):
        for group, text in enumerate(texts):
            what = named(f"?share_of_group{group}", "percent")
            found.append(said(at, "audit", text, {**VIT, "set": name}, SRTS, what))
    for severity, text in enumerate(("44", "50", "54", "59", "66"), start=1):
        where = {**VIT, "set": f"corrupted-s{severity}"}
        found.append(said(at, "audit", text, where, SRTS, named("?share_of_group2", "percent")))
    at = "app:matched-capacity"
    for name, text in (("clean", "0.093"), ("corrupted-s1", "0.125"), ("corrupted-s5", "0.226")):
        what = named("?mean_risk", "fraction")
        found.append(said(at, "audit", text, {**VIT3, "set": name}, SRTS, what))
    return found


def _predictions() -> list[Fields]:
    ten = cell("cifar10", "vit-b16", 1)
    what = named("?temperature", "temperature")
    found = [said("tab:cifar10_seed0_summary", "clean", "0.527", ten, {"method": "ts-nll"}, what)]
    at, every = "tab:phaseb_top1_audit", method("?every_method")
    cells = [*({**one, "seeds": 3} for one in CIFAR_TRIO), cell("tiny-imagenet", "vit-b16")]
    for where, text in zip(cells, ("21", "24", "24", "21"), strict=True):
        found.append(said(at, "top1-audit", text, where, every, named("?rows_checked", "count")))
        found.append(said(at, "top1-audit", "0", where, every, named("?rows_changed", "count")))
    return found


PROSE = [
    *_clean(),
    *_budget(),
    *_shift(),
    *_selection(),
    *_audit(),
    *_occupancy(),
    *_predictions(),
]

#: Corrections to what a whole table says of its cells: those that match get the second dict.
CORRECTIONS: list[tuple[Fields, Fields]] = [
    (
        {
            "table": "tab:cross_dataset_ece_summary",
            "dataset": "imagenet100",
            "backbone": "deit-s",
            "method": "smart-softece",
        },
        {"seeds": 3},
    ),
    # Not said of how many seeds; the floor is the same for all.
    ({"table": "tab:bsigma-predictive", "backbone": "vit-b16"}, {"seeds": None}),
    ({"table": "tab:bsigma-predictive", "paper_metric": "signal_to_noise_floor"}, {"seeds": 1}),
    ({"backbone": TRIO}, {"seeds": {"vit-b16": 5, "deit-s": 3, "swin-t": 3}}),
    # Its floor in tab:bsigma-predictive, 2 / n, tells how many samples such a network has.
    (
        {"table": "app:margin-not-sufficient"},
        {
            "seeds": {"vit-b16": 3, **dict.fromkeys(CIFAR_NETWORKS, 1)},
            "budget": {"vit-b16": 2500, **dict.fromkeys(CIFAR_NETWORKS, 1000)},
        },
    ),
    # Small next to the ECE: a share of all samples, not of errors.
    *(
        (
            {"table": label, "metric": "hcfp90"},
            {"metric": None, "paper_metric": "hcfp90_of_all", "unit": "percent"},
        )
        for label in (
            *("tab:stage4_srts_k", "tab:stage4_srts_bootstrap"),
            "fig:srts-recovery-case-study",
        )
    ),
    # Their 200 classes only, before anything: models of their own.
    ({"set": "imagenet-r"}, {"dataset": "imagenet1k-r"}),
    ({"set": "imagenet-a"}, {"dataset": "imagenet1k-a"}),
    ({"table": "tab:stage4_srts_k"}, {"study": "k-ablation-nll"}),
    ({"table": "tab:matched_margin_c100c"}, {"study": "within-margin"}),
    ({"table": "tab:natural_shift"}, {"study": "natural-shift"}),
    ({"table": "app:natural-shift"}, {"study": "natural-shift"}),
    ({"table": "app:nested-k"}, {"study": "on-off"}),
    ({"paper_metric": "mean_risk"}, {"study": "risk-flow"}),
    ({"table": "app:selector"}, {"cells_of": "tab:selector"}),
    # Seven methods by NLL make 21 results of three seeds; with TvA-TS they are 24.
    ({"table": "tab:phaseb_top1_audit", "backbone": "vit-b16"}, {"entries": BY_NLL}),
    *(
        ({"table": "tab:phaseb_top1_audit", "backbone": name}, {"entries": [*BY_NLL, TVA]})
        for name in ("deit-s", "swin-t")
    ),
    (
        {"table": "tab:sats_bce_fairness", "method": "sats-logit-bce", "metric": "ece15"},
        {"per_seed": [7.88, 9.25, 7.23]},
    ),
    (
        {"table": "tab:sats_bce_fairness", "method": "sats-features-bce", "metric": "ece15"},
        {"per_seed": [9.74, 10.07, 9.01]},
    ),
]

#: What to know of numbers that are not doubtful. Ends of intervals that differ in their last place
#: are two runs of one bootstrap.
NOTES: list[tuple[Fields, str]] = [
    # Its ECEs are higher than those of the same fits in tab:stage4_srts_k, as noise makes them.
    *(
        ({"table": "tab:stage4_srts_bootstrap", "metric": name}, MEAN_OF_RESAMPLES)
        for name in ("ece15", "nll", "auroc")
    ),
    (
        {"table": "tab:auditability", "set": "corrupted-s5"},
        "62 elsewhere, for one seed",
    ),
    (
        {"table": "tab:cifar10_seed0_summary", "paper_metric": "temperature"},
        "called over-confident, but a temperature below 1 means under-confident",
    ),
    (
        {"table": "tab:tiny_replication", "kind": "difference"},
        "the text gives ends that differ by up to 0.02",
    ),
    (
        {"table": "tab:p1_matched_maps", "against": "pwlinear-3", "backbone": "deit-s"},
        "the text has +0.04 for the upper end",
    ),
    (
        {"table": "tab:matched_capacity_tiers", "against": "qats-bce"},
        "the text has -1.05 for the lower end",
    ),
    (
        {"table": "tab:matched_capacity_tiers", "against": "qats-nll"},
        "the text has -0.89 for the upper end",
    ),
    (
        {"table": "tab:matched_capacity_tiers", "against": "smart-bce"},
        "by corruption type the upper end is +0.00 here, +0.001 and below zero elsewhere",
    ),
    (
        {"table": "app:best-per-criterion", "against": "smart-bce", "interval": [-0.33, 0.03]},
        "by corruption type the upper end is +0.001 here, +0.00 and below zero elsewhere",
    ),
    (
        {"table": "tab:bsigma-predictive", "dataset": "imagenet1k"},
        "called a loss for SRTS, which beats one temperature on these cells in another table",
    ),
]

#: What makes a number doubtful, beside another place that contradicts it (found by program).
DOUBTS: list[tuple[Fields, str]] = [
    (
        {"table": "tab:nested_k_cross_backbone", "method": None, "dataset": "cifar100"},
        "no choice of K gives this by BCE; it is near SRTS fitted by NLL",
    ),
    (
        {"table": "tab:nested_k_cross_backbone", "method": None, "backbone": "deit-s"},
        "no choice of K gives this by BCE; it is near SRTS fitted by NLL",
    ),
    (
        {"table": "tab:deployment_metrics", "set": "corrupted"},
        "said to be five seeds; all other corrupted CIFAR-100 results are of three",
    ),
    (
        {"table": "tab:imagenetc_resampling"},
        "ten resamples of a subset that is elsewhere said to be fixed",
    ),
    (
        {"table": "tab:inc_bce"},
        "ten resamples of a subset that is elsewhere said to be fixed",
    ),
    (
        {"table": "tab:sota_3seed_full_metrics", "seeds": 3, "kind": "difference"},
        "against one temperature over three seeds, the other rows over five",
    ),
    (
        {
            "method": "sats-logit-nll",
            "dataset": "cifar100",
            "backbone": "vit-b16",
            "seeds": 5,
            "spread_over": "seeds",
        },
        "called five seeds here and three elsewhere",
    ),
    (
        {
            "method": "sats-logit-nll",
            "dataset": "cifar100",
            "backbone": "vit-b16",
            "seeds": 3,
            "metric": "ece15",
            "set": "clean",
        },
        "several values of this cell are in print: 5.74, 6.04, 6.15, 6.17",
    ),
    (
        {"method": "spline-risk", "table": "tab:matched_capacity_full", "backbone": "vit-b16"},
        "the text calls the spline a match for three groups on clean CIFAR-100",
    ),
    *(
        (
            {"table": f"tab:{label}", "method": "srts-bce", "metric": "ece15", "set": "clean"},
            "seems to be of an older run, with seven signals",
        )
        for label in ("router_ablation_margin", "residual_router_ablation")
    ),
    (
        {"table": "tab:bce-valsize-sensitivity", "budget": 2500, "method": "srts-bce"},
        "seems to be of an older run, with seven signals",
    ),
]

SKIPPED = [
    {
        "table": "tab:shift_scope",
        "study": "scope-map",
        "why": "a summary in words; its numbers are in other tables",
    },
    {
        "table": "tab:regime_winloss",
        "study": "scope-map",
        "why": "winners and losers in words, no values of its own",
    },
]

#: Metrics of the paper that smallcal's table does not hold, in our words.
PAPER_METRICS = {
    "parameters": "fitted numbers of the calibrator",
    "hcfp90_of_all": "share of samples that are wrong at a confidence of 90 % or more",
    "auroc_risk": "how well the risk out of fold tells errors apart on the calibration split",
    "auroc_confidence": "how well the confidence does",
    "models_won": "models where the ECE is lower, as printed",
    "models_lost": "models where it is higher, as printed",
    "regimes_helped": "models that three groups help by more than 0.2 points",
    "regimes_helped_and_kept": "those where the rule keeps more than half of that",
    "regimes_hurt": "models that three groups hurt by more than 0.2 points",
    "regimes_hurt_and_avoided": "those where the rule takes on less than half of that",
    "share_of_three_where_one_is_better": "how often the rule takes three where one is better",
    "fit_time": "time to fit",
    "apply_time": "time to apply",
    "temperature": "fitted temperature; over groups, the lowest and the highest",
    "temperature_ratio": "highest over lowest group temperature",
    "temperature0": "temperature of the group of lowest risk",
    "temperature1": "temperature of the middle group",
    "temperature2": "temperature of the group of highest risk",
    "threshold1": "risk that parts the first group from the second",
    "threshold2": "risk that parts the second group from the third",
    "share_of_fits_at_bounds": "fits with a temperature at a bound",
    "share_of_fits_pooled_groups": "fits with a group too small for its own temperature",
    "share_of_fits_risk_in_order": "fits whose groups' error rates rise with risk",
    "share_of_fits_temperatures_in_order": "fits whose temperatures rise with risk",
    "share_of_group0": "samples routed to the group of lowest risk",
    "share_of_group1": "samples routed to the middle group",
    "share_of_group2": "samples routed to the group of highest risk",
    "mean_risk": "mean risk score",
    "signal_to_noise": "between-group over within-group variance of the loss's slope",
    "signal_to_noise_floor": "what chance alone gives: (K - 1) / n",
    "signal_to_noise_random": "the same ratio for random groups",
    "spearman_gain_and_raw_ece": "rank correlation over corruptions",
    "spearman_gain_over_tva_and_over_smart": "rank correlation over corruptions",
    "spearman_calibration_gain_and_test_gain": "rank correlation over cells",
    "corruptions_best_of_19": "corruptions where SRTS-BCE is below both peers",
    "ece_above_the_better_of_two": "mean ECE above that of the better of K=1 and K=3",
    "largest_ece_above_the_better_of_two": "the worst case of the same",
    "rows_checked": "results compared with the raw model's predictions",
    "rows_changed": "results in which a prediction changed",
}
for _percent in (80, 90, 95):
    PAPER_METRICS |= {
        f"selective_risk{_percent}": f"error rate among the most confident {_percent} %",
        f"coverage_at{_percent}": f"share with a confidence of {_percent} % or more",
        f"risk_at{_percent}": f"error rate at a confidence of {_percent} % or more",
        f"gap_at{_percent}": f"confidence minus accuracy at a confidence of {_percent} % or more",
        f"risk_at_tva_coverage{_percent}": "error rate among as many as one temperature by BCE "
        f"keeps at {_percent} %",
        f"gap_at_tva_coverage{_percent}": "confidence minus accuracy among as many as one "
        f"temperature by BCE keeps at {_percent} %",
    }
for _name in ("selective_risk80", "risk_at90"):
    PAPER_METRICS.pop(_name)  # smallcal has them
