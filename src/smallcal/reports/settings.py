"""The settings of a report: what was asked for beside the samples, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from smallcal.advice.costs import Costs
from smallcal.calibrators.catalogue import OF_SCORES, method, true_name
from smallcal.errors import InputError
from smallcal.statistics.interval import require_options

#: The uncalibrated model, two classics, the paper's method, temperatures linear in statistics of
#: the logits, and the default.
DEFAULT_METHODS = ("none", "ts-nll", "tva-ts", "srts-bce", "signal-linear", "default")
DEFAULT_BOOT = 1_000
#: The method that leaves the model alone; every report has it.
RAW = "none"
#: Fewer resamples than this cannot carry a verdict.
MIN_BOOT = 100
#: Resamples for groups and shifted sets, of which there are many.
_MANY = 500


def usual_methods(input: str) -> tuple[str, ...]:
    """Return the methods of a report that names none.

    Examples
    --------
    >>> usual_methods("score")[:3]
    ('none', 'ts-nll', 'platt')
    """
    return OF_SCORES if input == "score" else DEFAULT_METHODS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a report was asked for, beside the samples; checked when it is made.

    Attributes
    ----------
    methods : sequence of str
        As they were asked for.
    n_boot, level, seed : int, float, int
        Resamples of the test samples (0: no intervals), the level of all intervals, and what all
        draws begin from.
    title, command : str, optional
    verb_options : mapping of str to sequence of str
        What ``smallcal fit`` and ``smallcal apply`` need to read the same files.
    input : str
        What rows hold, which decides what the default is.
    costs : Costs, optional
        Of decisions, for a section about them.
    keep_predictions : bool
        Whether methods that may change predictions keep the model's.
    names : dict of str to str
        Each method's true name and the one it was asked for by, the uncalibrated model first.
    bootstrap, many : tuple of (int, float, int)
        What functions that resample take: ``(n_boot, level, seed)``, in ``many`` with fewer
        resamples, for what is resampled many times over.

    Examples
    --------
    >>> asked = Settings(methods=["ts-nll", "default"])
    >>> asked.names
    {'none': 'none', 'ts-nll': 'ts-nll', 'smallcal': 'default'}
    >>> asked.bootstrap, asked.many
    ((1000, 0.95, 0), (500, 0.95, 0))
    """

    methods: Sequence[str] = DEFAULT_METHODS
    n_boot: int = DEFAULT_BOOT
    level: float = 0.95
    seed: int = 0
    title: str | None = None
    command: str | None = None
    verb_options: Mapping[str, Sequence[str]] = field(default_factory=dict)
    input: str = "logits"
    costs: Costs | None = None
    keep_predictions: bool = False
    names: dict[str, str] = field(init=False)
    bootstrap: tuple[int, float, int] = field(init=False)
    many: tuple[int, float, int] = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.methods, str):
            raise InputError(
                f"methods must be a list of names; got the string {self.methods!r}",
                code="option-type",
            )
        names = {RAW: RAW}
        for name in self.methods:
            method(name, self.input)  # raises where there is none
            names.setdefault(true_name(name, self.input), name)
        why = "verdicts rest on intervals, and 0 leaves them out"
        least = MIN_BOOT if self.n_boot else 0
        require_options(self.n_boot, self.level, least=least, why=why)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "bootstrap", (self.n_boot, self.level, self.seed))
        object.__setattr__(self, "many", (min(self.n_boot, _MANY), self.level, self.seed))

    def steps(self, n_shifted: int = 0) -> int:
        """Return how many steps ``advance`` is told of, for a bar."""
        return len(self.names) + self.n_boot + n_shifted * self.many[0]
