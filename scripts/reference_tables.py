"""How each table of the paper is read: which row is which method, which column which metric.

Only numbers are taken. A row and a column are dicts of fields; an entry is what the table says of
all its cells, then the row, then the column, then the numbers in the cell. `reference_values.py`
writes and checks the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from smallcal.metrics import METRICS

Fields = dict[str, Any]

#: Size of the calibration split, where a table does not say otherwise.
BUDGETS = {"cifar10": 2500, "cifar100": 2500, "tiny-imagenet": 5000, "imagenet100": 2500}
BUDGETS |= {"imagenet1k": 5000, "cifar100-10pct": 2500, "cifar100-25pct": 2500}
BUDGETS["imagenet-sketch"] = 2500

TRANSFORMERS = ("vit-b16", "deit-s", "swin-t")
CONVNETS = ("resnet50", "regnety-1.6gf")
SCALES = {"nll": "nats", "top_label_bce": "nats"}
HIERARCHY = "seeds>corruptions>severities"


def cell(dataset: str, backbone: str, seeds: int = 3, **more: Any) -> Fields:
    """Return the fields of a model on a dataset."""
    budget = BUDGETS[dataset]
    return {"dataset": dataset, "backbone": backbone, "seeds": seeds, "budget": budget, **more}


def corrupted(dataset: str, backbone: str, seeds: int = 3, **more: Any) -> Fields:
    """Return the fields of a model fitted on clean data and used on corrupted data."""
    return cell(dataset, backbone, seeds, set="corrupted", **more)


def method(token: str) -> Fields:
    """Return the fields of `name`, `name[option=value]`, or `?a name smallcal does not have`."""
    if token.startswith("?"):
        return {"method": None, "paper_method": token[1:].replace("_", " ")}
    name, _, option = token.rstrip("]").partition("[")
    if not option:
        return {"method": name}
    key, _, value = option.partition("=")
    return {"method": name, "options": {key: int(value) if value.isdigit() else value}}


def methods(tokens: str, **more: Any) -> list[Fields]:
    """Return a row for each method."""
    return [{**method(token), **more} for token in tokens.split()]


def metric(token: str) -> Fields | None:
    """Return the fields of a metric; `?name` is one that smallcal's table lacks, `-` skips."""
    if token == "-":
        return None
    if token.startswith("?"):
        return {"metric": None, "paper_metric": token[1:]}
    return {"metric": token}


def metrics(tokens: str, **more: Any) -> list[Fields | str | None]:
    """Return a column for each metric."""
    found = [metric(token) for token in tokens.split()]
    return [None if one is None else {**one, **more} for one in found]


def cross(*axes: list[Fields]) -> list[Fields]:
    """Return every combination, the last axis fastest."""
    found: list[Fields] = [{}]
    for axis in axes:
        found = [{**one, **other} for one in found for other in axis]
    return found


def difference(against: str, first: str = "srts-bce", **more: Any) -> Fields:
    """Return the fields of `first` minus `against`."""
    return {"method": first, "against": against, "kind": "difference", "metric": "ece15", **more}


def minus_row(first: str, **more: Any) -> Fields:
    """Return the fields of `first` minus the method of the row."""
    return {"minus_row": first, "kind": "difference", "metric": "ece15", **more}


WIN = {"metric": "ece15", "kind": "win-share", "against": "tva-ts", "unit": "percent"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """How a table is read.

    A column is a dict of fields; a list of two where a cell has two numbers; None to be skipped;
    or "+spread", "+interval", "+picks", "+name" for a cell that adds to the entry before it.
    """

    study: str
    rows: list[Fields]
    columns: list[Any]
    common: Fields = field(default_factory=dict)
    labels: int = 1


MAPS = "margin-k3 linear-risk pwlinear-3 spline-risk smart-bce"
COMPARATORS = ("tva-ts", "qats-nll", "qats-bce", *MAPS.split())

VIT = cell("cifar100", "vit-b16", 5)
VIT3 = cell("cifar100", "vit-b16", 3)
VIT_C = corrupted("cifar100", "vit-b16", 3)
ECE = {"metric": "ece15"}
DRAWS = {"draws": 20, "resampled": "seeds>draws"}
HEADS = "sats-logit-nll lts-feature sats-features-nll utemphead"
FULL = f"none ts-nll srts-nll[n_groups=1] srts-nll {HEADS} tva-ts srts-bce smart-bce"
NLL_ERA = "none ts-nll srts-nll[n_groups=1] srts-nll sats-logit-nll"
FIVE = "none ts-nll tva-ts smart-bce srts-bce"
THREE = "accuracy nll brier ece15 aurc eaurc"
CIFAR_TRIO = [cell("cifar100", name, 5 if name == "vit-b16" else 3) for name in TRANSFORMERS]
TINY_TRIO = [cell("tiny-imagenet", name) for name in TRANSFORMERS]
IMAGENET100 = [cell("imagenet100", name, 5 if name == "deit-s" else 3) for name in TRANSFORMERS]
BASES = [cell("cifar100", f"vit-b16-{base}", 1) for base in ("ce", "temphead", "stopgrad")]
MATCHED = [
    {**ECE, **VIT},
    {**ECE, **cell("tiny-imagenet", "vit-b16")},
    {**ECE, **cell("imagenet100", "deit-s")},
    {**ECE, **VIT_C},
]
THREE_BINS = [{"metric": name} for name in ("ece15", "adaece15", "smece")]

TABLES = {
    "tab:sota_3seed_summary": Table(
        study="clean",
        common=VIT,
        rows=methods(
            "none ts-nll hts-nll srts-nll tva-ts hts-bce smart-bce srts-bce sats-logit-nll"
        ),
        columns=metrics("?parameters nll top_label_bce ece15 adaece15 smece eaurc"),
    ),
    "tab:sota_3seed_full_metrics": Table(
        study="clean",
        common=VIT,
        labels=2,
        rows=[
            *methods("none ts-nll sats-logit-nll"),
            *methods("lts-feature sats-features-nll", seeds=3),
            *methods("tva-ts smart-bce smart-softece srts-nll srts-bce"),
        ],
        columns=[
            *metrics("nll ece15"),
            {"metric": "ece15", "kind": "difference", "against": "tva-ts"},
            *metrics("adaece15 cwece15 smece eaurc"),
        ],
    ),
    "tab:matched_capacity_main": Table(
        study="matched-maps",
        rows=methods("tva-ts margin-k3 smart-bce linear-risk pwlinear-3 srts-bce"),
        columns=MATCHED,
    ),
    "tab:matched_capacity_full": Table(
        study="matched-maps",
        rows=methods(f"tva-ts qats-nll qats-bce {MAPS} srts-bce"),
        columns=MATCHED,
    ),
    "tab:matched_capacity_tiers": Table(
        study="matched-maps",
        common={**VIT_C, "resampled": HIERARCHY},
        rows=[difference(name) for name in COMPARATORS],
        columns=[{}, "+cells", "+corruption types", "+interval"],
    ),
    "tab:hts_comparison": Table(
        study="matched-maps",
        common=VIT,
        rows=methods("hts-nll hts-bce"),
        columns=[
            ECE,
            {**ECE, **VIT_C},
            minus_row("srts-bce", **VIT_C, resampled=HIERARCHY),
            *(minus_row("srts-bce", **{**one, "budget": 250}, **DRAWS) for one in CIFAR_TRIO),
        ],
    ),
    "tab:efficiency": Table(
        study="efficiency",
        common={**VIT3, "note": "4 CPU threads, 2,500 samples to fit, 10,000 to apply"},
        rows=methods("ts-nll tva-ts srts-bce smart-bce sats-logit-nll"),
        columns=[
            *metrics("?parameters"),
            *metrics("?fit_time", unit="seconds"),
            *metrics("?apply_time", unit="microseconds per sample"),
        ],
    ),
    "tab:router_causality": Table(
        study="routing-signal",
        common=VIT,
        rows=[
            *methods(
                "srts-nll confidence-k3[objective=nll] random-k3[objective=nll] "
                "shuffled-k3[objective=nll]",
                seeds=3,
            ),
            *methods(
                "tva-ts srts-bce confidence-k3 random-k3 shuffled-k3 oracle-risk smart-bce",
            ),
        ],
        columns=metrics("nll brier ece15 eaurc"),
    ),
    "tab:brier_routing": Table(
        study="objective",
        common=VIT3,
        rows=methods(
            "ts-brier srts-brier confidence-k3[objective=brier] random-k3[objective=brier]"
        ),
        columns=metrics("nll brier ece15 eaurc"),
    ),
    "tab:mixed-objective-diagnostic": Table(
        study="objective",
        common=VIT3,
        rows=methods(
            " ".join(f"srts-mixed[objective=mixed({w})]" for w in ("0.1", "0.3", "1", "3", "10"))
        ),
        columns=metrics("nll ece15"),
    ),
    "tab:fairness_sweep": Table(
        study="heads",
        common=VIT3,
        rows=methods(
            "ts-nll srts-nll srts-bce smart-bce sats-logit-nll sats-features-nll lts-feature"
        ),
        columns=[{"metric": "nll", "set": "calibration"}, *metrics("ece15 nll")],
    ),
    "tab:adaptive_head_failure_cross_backbone": Table(
        study="heads",
        rows=[
            *({**one, "seeds": 3} for one in CIFAR_TRIO),
            *TINY_TRIO,
        ],
        columns=[
            {**ECE, "method": "sats-logit-nll"},
            {**ECE, "method": "sats-features-nll"},
            None,
        ],
    ),
    "tab:sats_bce_fairness": Table(
        study="heads",
        common={**VIT3, "ddof": 0},
        rows=methods("ts-nll tva-ts srts-bce smart-bce sats-logit-bce sats-features-bce"),
        columns=metrics("accuracy ece15 nll eaurc"),
    ),
    "tab:table1_protocol_a": Table(
        study="heads",
        common=cell("cifar100", "vit-b16-controlled", 1),
        rows=methods(
            "none ts-nll ?LTS-scalar sats-logit-nll lts-feature sats-features-nll srts-nll "
            "features-k3[objective=nll]"
        ),
        columns=metrics("accuracy nll brier ece15 adaece15 auroc aurc eaurc"),
    ),
    "tab:stage4_srts_k": Table(
        study="k-ablation",
        labels=2,
        rows=cross(BASES, methods(" ".join(f"srts-nll[n_groups={k}]" for k in (1, 2, 3, 5, 10)))),
        columns=[
            *metrics("ece15 nll hcfp90"),
            *metrics("?temperature", kind="range", unit="temperature"),
            *metrics("?temperature_ratio", unit="ratio"),
        ],
    ),
    "tab:stage4_srts_bootstrap": Table(
        study="routing-signal",
        common={"resampled": "images"},
        labels=2,
        rows=cross(
            BASES,
            methods("none srts-nll features-k3[objective=nll] ?SRTS-NLL_by_a_head's_temperature"),
        ),
        columns=metrics("ece15 nll hcfp90 auroc"),
    ),
    "tab:phi_proper_scores": Table(
        study="proper-scores",
        common=VIT3,
        rows=methods("ts-nll tva-ts srts-nll smart-bce pwlinear-3 srts-bce"),
        columns=[
            {**minus_row("none"), "metric": name} for name in ("top_label_bce", "nll", "brier")
        ],
    ),
    "tab:routing_signal_ablation": Table(
        study="routing-signal",
        common=VIT,
        rows=methods(
            "confidence-k3 margin-k3 probmargin-k3 confmargin-k3 srts-bce random-k3 shuffled-k3"
        ),
        columns=metrics("ece15 nll brier eaurc"),
    ),
    "tab:router_ablation_margin": Table(
        study="routing-signal",
        common=VIT3,
        rows=methods("margin-k3 srts-bce shuffled-k3 oracle-correctness"),
        columns=[*metrics("ece15 eaurc"), *metrics("ece15 eaurc", set="corrupted")],
    ),
    "tab:matched_margin_c100c": Table(
        study="routing-signal",
        common=VIT_C,
        labels=2,
        rows=cross(
            [{"set": f"corrupted-margin-{third}"} for third in ("low", "mid", "high")],
            methods("tva-ts margin-k3 srts-bce smart-bce"),
        ),
        columns=metrics("ece15 nll aurc eaurc"),
    ),
    "tab:residual_router_ablation": Table(
        study="routing-target",
        common=VIT3,
        rows=methods("tva-ts srts-bce margin-k3 signed-residual-k3 abs-residual-k3"),
        columns=metrics("ece15 adaece15 smece nll brier eaurc"),
    ),
    "tab:bce-valsize-sensitivity": Table(
        study="budget",
        common={**VIT3, "draws": 5},
        rows=methods("tva-ts srts-bce smart-bce"),
        columns=[{**ECE, "budget": budget} for budget in (250, 625, 1250, 2500)],
    ),
    "tab:budget_resampling": Table(
        study="budget",
        common={**VIT, "draws": 20},
        labels=2,
        rows=cross(
            [{"budget": budget} for budget in (250, 625, 1250, 2500)],
            methods("tva-ts margin-k3 smart-bce srts-bce"),
        ),
        columns=[
            {**ECE, "spread_over": "seeds x draws"},
            "+spread",
            {**ECE, "kind": "difference", "against": "tva-ts", "resampled": "draws"},
            WIN,
        ],
    ),
    "tab:budget_hierarchical": Table(
        study="budget",
        common=DRAWS,
        rows=[
            *CIFAR_TRIO,
            {
                **cell("cifar100", "vit-b16+deit-s+swin-t", 11),
                "resampled": "backbones>seeds>draws",
            },
        ],
        columns=[
            difference(against, budget=budget)
            for budget in (250, 2500)
            for against in ("tva-ts", "smart-bce")
        ],
    ),
    "tab:budget_multimetric": Table(
        study="budget",
        common=DRAWS,
        rows=[{**one, "budget": 250} for one in CIFAR_TRIO],
        columns=[
            {**difference(against), "metric": name}
            for name in ("adaece15", "smece")
            for against in ("tva-ts", "smart-bce")
        ],
    ),
    "tab:p1_matched_maps": Table(
        study="matched-maps",
        common={"draws": 20},
        rows=methods("pwlinear-3 linear-risk spline-risk"),
        columns=[
            column
            for one in CIFAR_TRIO
            for column in (
                minus_row("srts-bce", **{**one, "budget": 250}, resampled="seeds>draws"),
                {**WIN, **one, "budget": 250},
            )
        ],
    ),
    "tab:tiny_replication": Table(
        study="budget",
        common={"draws": 20},
        labels=2,
        rows=[
            {**cell("tiny-imagenet", name), "budget": budget}
            for name in ("deit-s", "swin-t")
            for budget in (250, 625, 1250, 2500)
        ],
        columns=[
            *({**ECE, "method": name} for name in ("tva-ts", "smart-bce", "srts-bce")),
            difference("tva-ts", resampled="seeds>draws"),
            difference("smart-bce", resampled="seeds>draws"),
            {**WIN, "method": "srts-bce"},
        ],
    ),
    "tab:tiny_multimetric": Table(
        study="budget",
        common=DRAWS,
        labels=2,
        rows=[
            {**cell("tiny-imagenet", name), **difference(against), "budget": 250}
            for name in ("deit-s", "swin-t")
            for against in ("tva-ts", "smart-bce")
        ],
        columns=metrics("adaece15 smece"),
    ),
    "tab:cifar100c_summary": Table(
        study="shift",
        common=VIT_C,
        rows=methods("none ts-nll srts-nll tva-ts srts-bce smart-bce"),
        columns=metrics(THREE),
    ),
    "tab:deployment_metrics": Table(
        study="deployment",
        common=VIT,
        rows=cross(
            [{"set": "clean"}, {"set": "corrupted"}],
            methods("tva-ts smart-bce srts-bce"),
        ),
        columns=metrics(
            "hcfp90 hcfp95 selective_risk80 ?selective_risk90 ?selective_risk95", unit="percent"
        ),
    ),
    "tab:decision_thresholds": Table(
        study="thresholds",
        common=VIT,
        rows=cross(
            [{"set": "clean"}, {"set": "corrupted", "seeds": 3}],
            methods("none tva-ts hts-bce smart-bce srts-bce"),
        ),
        columns=metrics(
            "?coverage_at80 ?risk_at80 ?gap_at80 ?coverage_at90 risk_at90 ?gap_at90 "
            "?coverage_at95 ?risk_at95 ?gap_at95",
            unit="percent",
        ),
    ),
    "tab:matched_coverage": Table(
        study="matched-coverage",
        common=VIT,
        rows=cross(
            [{"set": "clean"}, {"set": "corrupted", "seeds": 3}],
            methods("none tva-ts hts-bce smart-bce srts-bce"),
        ),
        columns=[
            *metrics("aurc", unit="x1000"),
            *metrics(
                "?risk_at_tva_coverage80 ?gap_at_tva_coverage80 ?risk_at_tva_coverage90 "
                "?gap_at_tva_coverage90 ?risk_at_tva_coverage95 ?gap_at_tva_coverage95",
                unit="percent",
            ),
        ],
    ),
    "tab:convnet_c100c": Table(
        study="shift",
        rows=[
            *methods("none ts-nll tva-ts smart-bce srts-bce"),
            difference("smart-bce", resampled="cells"),
        ],
        columns=[{**ECE, **corrupted("cifar100", name)} for name in CONVNETS],
    ),
    "tab:imagenetc_summary": Table(
        study="shift",
        common={**corrupted("imagenet1k", "vit-b16", 1), "spread_over": "cells"},
        rows=methods(NLL_ERA),
        columns=metrics("accuracy nll ece15 adaece15 aurc"),
    ),
    "tab:imagenetc_resampling": Table(
        study="shift",
        common={**corrupted("imagenet1k", "vit-b16", 1), "draws": 10, "spread_over": "draws"},
        rows=methods(NLL_ERA),
        columns=metrics("nll brier ece15 aurc"),
    ),
    "tab:inc_bce": Table(
        study="shift",
        common={**corrupted("imagenet1k", "vit-b16", 1), "draws": 10, "spread_over": "draws"},
        rows=methods("none ts-nll tva-ts srts-bce smart-bce"),
        columns=[*metrics("ece15 eaurc -"), *metrics("ece15", set="corrupted-s4-s5")],
    ),
    "tab:in100": Table(
        study="clean",
        rows=methods(FIVE),
        columns=[{**ECE, **one} for one in IMAGENET100],
    ),
    "tab:in1k_pretrained_clean": Table(
        study="clean",
        rows=[
            cell("imagenet1k", name, 1)
            for name in ("resnet50", "efficientnet-b0", "swin-b", "vit-b16")
        ],
        columns=[
            {"metric": "accuracy", "method": "none"},
            *({**ECE, **one} for one in methods(FIVE)),
        ],
    ),
    "tab:natural_shift": Table(
        study="shift",
        common={
            **cell("imagenet1k", "vit-b16", 1),
            "budget": 1000,
            "draws": 3,
            "spread_over": "draws",
        },
        rows=methods("none ts-nll tva-ts qats-nll qats-bce smart-bce pwlinear-3 srts-bce"),
        columns=[
            *metrics("ece15 top_label_bce", set="imagenet-r"),
            *metrics("ece15 top_label_bce", set="imagenet-a"),
        ],
    ),
    "tab:phaseb_deit_swin_full": Table(
        study="clean",
        labels=2,
        rows=cross(CIFAR_TRIO[1:], methods(FULL)),
        columns=metrics(THREE),
    ),
    "tab:tinyimagenet_deit_swin_full": Table(
        study="clean",
        labels=2,
        rows=cross(TINY_TRIO[1:], methods(FULL)),
        columns=metrics(THREE),
    ),
    "tab:tinyimagenet_3seed_summary": Table(
        study="clean",
        common=TINY_TRIO[0],
        rows=methods(
            f"none ts-nll srts-nll[n_groups=1] srts-nll tva-ts srts-bce smart-bce {HEADS}"
        ),
        columns=metrics(THREE),
    ),
    "tab:cross_dataset_ece_summary": Table(
        study="clean",
        rows=[
            *(cell("cifar10", name) for name in TRANSFORMERS + CONVNETS),
            *CIFAR_TRIO,
            *(cell("cifar100", name) for name in CONVNETS),
            *TINY_TRIO,
            *IMAGENET100,
        ],
        columns=[
            {**ECE, "method": "none"},
            *(
                [{**ECE, "method": name}, {"metric": "adaece15", "method": name}]
                for name in ("ts-nll", "tva-ts", "smart-softece", "srts-bce")
            ),
        ],
    ),
    "tab:cross_dataset_full_metrics_fixedk3": Table(
        study="clean",
        labels=2,
        rows=cross(
            [*CIFAR_TRIO, *(cell("cifar10", name) for name in TRANSFORMERS), *TINY_TRIO],
            THREE_BINS,
        ),
        columns=[*methods(FIVE), None],
    ),
    "tab:cross_dataset_ece_oracle": Table(
        study="oracle-k",
        common={"ddof": 0},
        labels=2,
        rows=cross([*CIFAR_TRIO, *TINY_TRIO], THREE_BINS),
        columns=methods("none ts-nll tva-ts smart-bce ?SRTS-BCE_with_the_best_K_on_the_test_set"),
    ),
    "tab:cifar10_seed0_summary": Table(
        study="clean",
        common=cell("cifar10", "vit-b16", 1),
        rows=methods(NLL_ERA),
        columns=metrics("accuracy nll ece15 adaece15 smece aurc"),
    ),
    "tab:nested_k_cross_backbone": Table(
        study="nested-k",
        common={"ddof": 0},
        rows=[*({**one, "seeds": 3} for one in CIFAR_TRIO), *TINY_TRIO],
        columns=[
            "+picks",
            {**ECE, **method("?SRTS-BCE_with_K_chosen_on_a_held-out_fifth")},
            {**ECE, "method": "srts-bce"},
        ],
    ),
    "tab:selector": Table(
        study="selector",
        rows=[
            *(cell("cifar100", name) for name in TRANSFORMERS + CONVNETS),
            *(cell("cifar10", name) for name in TRANSFORMERS + CONVNETS),
            *TINY_TRIO,
            cell("cifar100-10pct", "vit-b16"),
            cell("cifar100-25pct", "vit-b16"),
            *({**one, "seeds": 3} for one in IMAGENET100),
            cell("imagenet1k", "vit-b16", 1),
            *(
                {**cell("imagenet1k", "vit-b16", 1, draws=3, set=shift), "budget": 1000}
                for shift in ("imagenet-r", "imagenet-a")
            ),
        ],
        columns=[
            "+picks",
            {**ECE, "method": "tva-ts"},
            {**ECE, "method": "srts-bce"},
            {**ECE, **method("?K_of_1_or_3_by_the_one-standard-error_rule")},
            {**ECE, **method("?the_better_of_K=1_and_K=3_for_each_seed")},
        ],
    ),
    "tab:bsigma-predictive": Table(
        study="signal-to-noise",
        common={"method": "srts-bce", "unit": "x0.001"},
        rows=[
            cell("cifar100", "vit-b16", 1),
            {**cell("cifar100", "resnet56", 1), "budget": 1000},
            cell("imagenet1k", "resnet50", 1),
            cell("imagenet1k", "swin-b", 1),
        ],
        columns=metrics("?signal_to_noise ?signal_to_noise_floor ?signal_to_noise_random -"),
    ),
    "tab:argmax_changing_baselines": Table(
        study="heads",
        common=VIT3,
        rows=methods("ts-nll srts-nll tva-ts srts-bce smart-bce vector-scaling dirichlet-odir"),
        columns=metrics("accuracy nll ece15 eaurc"),
    ),
}

_NUMBER = r"[+-]?(?:\d+\.\d+|\d+|\.\d+)"
_CELL = re.compile(
    rf"(?P<value>{_NUMBER})?(?:±(?P<spread>{_NUMBER}))?"
    rf"(?:\[(?P<low>{_NUMBER}),(?P<high>{_NUMBER})\])?"
)


def environment(tex: str, label: str) -> str:
    """Return the table or figure with this label, or the section: up to the next heading."""
    mark = tex.index(f"\\label{{{label}}}")
    if kind := {"tab": "table", "fig": "figure"}.get(label.partition(":")[0]):
        start = tex.rindex(f"\\begin{{{kind}", 0, mark)
        return tex[start : tex.index(f"\\end{{{kind}", mark)]
    heading = re.compile(r"\\(?:sub)*section\{").search(tex, mark)
    return tex[mark : heading.start() if heading else len(tex)]


def cells(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row that holds numbers, without markup."""
    for body in re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, re.DOTALL):
        for row in body[body.index("\\midrule") :].split("\\\\"):
            row = re.sub(r"\\cmidrule(?:\(\w+\))?\{[^}]*\}|\\addlinespace(?:\[\w+\])?", "", row)
            if "&" in row and "\\multicolumn" not in row:
                yield [plain(one) for one in row.split("&")]


def plain(text: str) -> str:
    """Return a cell without markup and spaces."""
    text = re.sub(r"\\tablefootnote\{.*", "", text, flags=re.DOTALL).replace("{,}", "")
    text = text.replace("\\pm", "±").replace("\\,", "").replace("\\%", "")
    return re.sub(r"\\[a-z]+|\\[()]|[${}\s]", "", text)


def numbers(text: str) -> Fields:
    """Return value, spread, interval and decimals of a cell.

    >>> numbers("0.96±0.32")["value"], numbers("[-0.59,-0.28]")["interval"]
    (0.96, [-0.59, -0.28])
    """
    found = _CELL.fullmatch(text)
    if found is None or not text:
        raise ValueError(f"not a number: {text!r}")
    value, spread, low, high = found.group("value", "spread", "low", "high")
    return {
        "value": None if value is None else float(value),
        "spread": None if spread is None else float(spread),
        "interval": None if low is None else [float(low), float(high)],
        "decimals": len((value or low).partition(".")[2]),
    }


def entries(tex: str, label: str) -> Iterator[Fields]:
    """Yield the entries of a table."""
    table = TABLES[label]
    found = list(cells(environment(tex, label)))
    if len(found) != len(table.rows):
        raise ValueError(f"{label} has {len(found)} rows, not {len(table.rows)}")
    for row, texts in zip(table.rows, found, strict=True):
        common = {"table": label, "study": table.study, **table.common, **row}
        yield from _row(common, table.columns, texts[table.labels :])


def _row(common: Fields, columns: list[Any], texts: list[str]) -> Iterator[Fields]:
    found: list[Fields] = []
    picks: list[int] = []
    for column, text in zip(columns, texts, strict=True):
        if column is None or text == "---":
            continue
        if column == "+picks":
            picks = [int(one) for one in re.split("[/,]", text)]
        elif isinstance(column, str):
            _add(found[-1], column[1:], numbers(text))
        elif isinstance(column, list):
            pairs = zip(column, text.split("/"), strict=True)
            found += [{**common, **part, **numbers(piece)} for part, piece in pairs]
        else:
            found.append({**common, **column, **numbers(text)})
    # A method against itself is printed as zero in one table.
    own = [one for one in found if "against" not in one or one["against"] != one["method"]]
    yield from (tidy(_picked(one, picks)) for one in own)


def _picked(entry: Fields, picks: list[int]) -> Fields:
    """Return the entry of a method that chooses K with its choices."""
    chooses = any(word in entry.get("paper_method", "") for word in ("chosen", "rule"))
    return {**entry, "picks": picks} if picks and chooses else entry


def _add(entry: Fields, name: str, given: Fields) -> None:
    if name == "spread":
        entry["spread"] = given["value"]
    elif name == "interval":
        entry["interval"] = given["interval"]
    else:
        entry.setdefault("other_intervals", {})[name] = given["interval"]


#: What every entry has, and the order of all fields.
REQUIRED = (
    *("table", "study", "dataset", "backbone", "seeds", "budget", "method", "set", "metric"),
    *("kind", "value", "unit", "spread", "interval", "decimals"),
)
ORDER = (
    *("table", "study", "dataset", "backbone", "seeds", "budget", "method", "options"),
    *("paper_method", "set", "metric", "paper_metric", "kind", "against", "value", "unit"),
    *("spread", "interval", "decimals", "spread_over", "ddof", "draws", "resampled"),
    *("other_intervals", "picks", "per_seed", "entries", "cells_of", "note", "doubt"),
)


def tidy(entry: Fields) -> Fields:
    """Return an entry with its defaults, its fields in order."""
    entry = {"set": "clean", "kind": "value", **entry}
    first = entry.pop("minus_row", None)
    if first is not None:
        entry |= {"method": first, "against": entry["method"]}
    entry.setdefault("unit", _unit(entry["metric"]))
    if entry["spread"] is not None:
        entry.setdefault("spread_over", "seeds")
    else:
        entry.pop("spread_over", None)
        entry.pop("ddof", None)
    return {key: entry[key] for key in ORDER if key in entry}


def _unit(name: str | None) -> str:
    if name is None:
        return "count"
    # The paper's own units, whatever people read here: it prints areas as they are.
    area = "aurc" in name or name.startswith("auroc")
    return "percent" if METRICS[name].percent and not area else SCALES.get(name, "fraction")
