# Two commands matter: `make demo` and `make test`. Each needs Python >= 3.10 and make, nothing else.

PYTHON ?= python3
VENV := .venv
CORE := .venv-core
LOWEST := .venv-lowest
PEERS := .venv-peers
RELEASE := .venv-release
# Real logits, one .npz per model.
SMALLCAL_DATA ?= ../shared/data
# Where the end-to-end run keeps images, networks, logits and results.
END_TO_END ?= runs/end-to-end
# Two processes at a time; each with one thread, so that they do not wait for each other. Each takes
# one half, so that what a file makes for its tests is made once, and steals from the other at the end.
# Tests start many processes: none should compile the sources anew.
PYTEST = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(1)/bin/python -m pytest -n 2 --dist worksteal
# Simulations and slow rounds whose outcome no extra can change: `make test` has them.
THE_SAME := tests/advice/test_careless_input.py tests/advice/test_certify_walk.py tests/advice/test_plan.py tests/calibrators/test_real_methods.py tests/statistics/test_coverage.py tests/statistics/test_class_frequencies.py tests/test_mutants.py tests/test_reference.py
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-slow mutants reference test-core test-lowest bench bench-methods compare-peers bench-bootstrap bench-report bench-streaming bench-adapt bench-studies bench-corruptions study-coverage study-no-harm study-scores study-scores-nested study-calarena study-advice study-plan study-groups study-monitor study-decisions study-adapt end-to-end figures data docs docs-check lint format release-check clean

help:
	@echo "make demo         calibrate a real classifier, show what changed and write smallcal-report.html"
	@echo "make test         tests of both packages with all extras, style and types; of a test's many cases, four"
	@echo "make test-slow    the rest: all cases, simulations, killed workers, and what is marked hard, with twenty times as"
	@echo "                  much thrown: damaged files, odd names, hostile calibrators (an hour). SMALLCAL_FUZZ_SEED=7 throws"
	@echo "                  others"
	@echo "make mutants      plant bugs in the numerical rooms, one at a time, and see which ones the tests miss (minutes)"
	@echo "make reference    compare what the working tree does with what the reference commit did: numbers, artefacts, names,"
	@echo "                  the JSON of commands (minutes)"
	@echo "make test-core    the tests of smallcal itself, on a bare install without extras"
	@echo "make test-lowest  the light tests, with the oldest versions allowed (Python 3.10 to 3.12)"
	@echo "make bench        speed, as ratios against named references; writes docs/explanation/speed.md (under ten minutes)"
	@echo "make bench-bootstrap  speed of the bootstrap against plain loops"
	@echo "make bench-report  seconds of a report, part by part"
	@echo "make bench-streaming  rows per second and memory of apply, from 1 to 10 million rows"
	@echo "make bench-adapt  rows per second and memory of adapt, up to 1,000,000 rows of 100 classes"
	@echo "make bench-studies  time of a whole budget study on SMALLCAL_DATA, and what two processes gain"
	@echo "make bench-corruptions  images per second of each corruption, at 32 and 224 pixels"
	@echo "make study-coverage   how often the intervals hold the truth, by simulation"
	@echo "make study-adapt  how often adapt finds, holds and refuses, on simulated rows and on SMALLCAL_DATA"
	@echo "make study-no-harm  the default against nine others on real logits in SMALLCAL_DATA, by kind (fifteen minutes)"
	@echo "make study-scores  the default for scores against other maps of one number, on scores in SMALLCAL_DATA"
	@echo "make study-scores-nested  the same with its fixed numbers chosen on other families of sets"
	@echo "make study-calarena  a file in CalArena's layout from real logits, and the entry of the default on it"
	@echo "make study-plan   how far plans are from what came true, on real logits in SMALLCAL_DATA"
	@echo "make study-groups  what effects of groups are worth on real groups in SMALLCAL_DATA"
	@echo "make study-advice  whether the verbs agree on what to use, and what that costs (after study-no-harm)"
	@echo "make study-monitor   false alarms, power and delay of the drift monitor"
	@echo "make study-decisions  whether thresholds, sets, adapt and refresh keep their promises, simulated and on SMALLCAL_DATA"
	@echo "make end-to-end   CIFAR-10, three small networks, their logits, 95 corruptions, studies and report (half an"
	@echo "                  hour; goes on where it was stopped; needs npm)"
	@echo "make bench-methods  what every method costs to fit and to apply"
	@echo "make docs         build the documentation site into site/: no network, warnings are errors"
	@echo "make docs-check   build it, then check its links, and its pages in Chromium, wide and narrow, light and dark"
	@echo "make compare-peers  smallcal beside netcal, probmetrics, scikit-learn, MAPIE and torch-uncertainty, in an environment"
	@echo "                  of their own: what each can do, how well and how fast; writes docs/comparison.md (five minutes)"
	@echo "make release-check  build both packages, install the wheel into a clean environment and use it there (minutes)"
	@echo "make format       let ruff tidy the code"
	@echo "make figures      draw the pictures of the docs anew"
	@echo "make data         make the demo data anew (needs npm and torch)"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# A stamp per set of packages, made again when pyproject.toml or the constraints change.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	@echo "installing smallcal into $(VENV) ..."
	@$(VENV)/bin/python $(PIP) -e '.[report]'
	@touch $@

$(VENV)/.dev: pyproject.toml lab/pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing smallcal with everything the tests need into $(VENV) (some minutes) ..."
	@$(VENV)/bin/python $(PIP) -c constraints.txt -e '.[dev]' -e 'lab[peers,vision]'
	@touch $@ $(VENV)/.demo

$(CORE)/.core: pyproject.toml
	@echo "installing smallcal without extras into $(CORE) ..."
	@$(PYTHON) -m venv $(CORE)
	@$(CORE)/bin/python $(PIP) -e '.[test]'
	@$(CORE)/bin/python $(PIP) --no-deps -e lab
	@touch $@

$(VENV)/.docs: pyproject.toml lab/pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing smallcal with what the site needs into $(VENV) ..."
	@$(VENV)/bin/python $(PIP) -c constraints.txt -e '.[docs]' -e lab
	@touch $@

demo: $(VENV)/.demo
	@$(VENV)/bin/smallcal demo
	@echo
	@echo "Here smallcal is $(VENV)/bin/smallcal; '. $(VENV)/bin/activate' puts it on your path."

test: $(VENV)/.dev
	$(call PYTEST,$(VENV)) -m "not slow and not hard"

test-slow: $(VENV)/.dev
	SMALLCAL_FUZZ=$${SMALLCAL_FUZZ:-20} SMALLCAL_STRESS=$${SMALLCAL_STRESS:-200} SMALLCAL_AGREEMENT=full $(call PYTEST,$(VENV)) -m "slow or hard"

mutants: $(VENV)/.dev
	$(VENV)/bin/python scripts/mutants.py --jobs 2

reference: $(VENV)/.dev
	$(VENV)/bin/python scripts/reference.py

test-core: $(CORE)/.core
	$(call PYTEST,$(CORE)) -m "not slow and not hard" -k "not real_logits" $(addprefix --ignore=,$(THE_SAME)) --deselect tests/cli/test_outputs.py::test_standard_output_on_a_full_disk_is_one_line tests src

test-lowest:
	@$(PYTHON) -m venv $(LOWEST)
	@$(LOWEST)/bin/python $(PIP) -c constraints-lowest.txt -e '.[test]'
	@$(LOWEST)/bin/python $(PIP) --no-deps -e lab
	$(call PYTEST,$(LOWEST)) --ignore tests/calibrators/test_real_methods.py tests src

bench: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/speed/run.py --write docs/explanation/speed.md

bench-bootstrap: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/resampling.py

bench-report: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/report_speed.py

bench-streaming: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/streaming.py

study-adapt: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/adapt_study.py $(SMALLCAL_DATA)

bench-adapt: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/adapt.py

bench-studies: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/study_speed.py $(SMALLCAL_DATA)

bench-corruptions: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/corruption_speed.py --write docs/lab/vision.md

study-coverage: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/coverage_study.py --write docs/explanation/statistics.md

study-calarena: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/calarena.py $(SMALLCAL_DATA)

study-scores: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/score_maps.py $(SMALLCAL_DATA) --write docs/explanation/score-maps.md

study-scores-nested: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/score_maps_nested.py $(SMALLCAL_DATA)

study-no-harm: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/no_harm.py $(SMALLCAL_DATA) --write docs/explanation/no-harm.md

study-plan: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/plan_study.py $(SMALLCAL_DATA) --write docs/guides/planning.md

study-groups: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/group_study.py $(SMALLCAL_DATA) --write docs/guides/groups.md

study-advice: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/advice_study.py $(SMALLCAL_DATA) --write docs/guides/choosing.md

study-monitor: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/monitor_study.py $(SMALLCAL_DATA)

study-decisions: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/decisions_study.py $(SMALLCAL_DATA) --write docs/explanation/decisions-study.md

# Where torchvision was built for another torch, its operators are stubbed, as in the tests.
end-to-end: $(VENV)/.dev
	$(VENV)/bin/python scripts/get_cifar10.py $(END_TO_END)/data/cifar10
	PYTHONPATH=$(CURDIR)/tests/support/torchvision_ops $(VENV)/bin/python benchmarks/end_to_end/run.py $(END_TO_END) --write docs/lab/end-to-end.md

bench-methods: $(VENV)/.dev
	$(VENV)/bin/python benchmarks/methods.py

$(PEERS)/.peers: pyproject.toml benchmarks/peers/requirements.txt
	@echo "installing smallcal and its peers into $(PEERS) (some minutes) ..."
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python $(PIP) -c constraints.txt -e '.[report,onnx]' -r benchmarks/peers/requirements.txt
	@touch $@

# Where torchvision was built for another torch, its operators are stubbed, as in the tests.
compare-peers: $(PEERS)/.peers
	SMALLCAL_DATA=$(SMALLCAL_DATA) PYTHONPATH=$(CURDIR)/tests/support/torchvision_ops $(PEERS)/bin/python benchmarks/peers/run.py --write docs/comparison.md

figures: $(VENV)/.dev
	$(VENV)/bin/python scripts/make_figures.py

data: $(VENV)/.dev
	$(VENV)/bin/python scripts/make_demo_data.py

docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(VENV)/bin/python -m sphinx -b html -n -W --keep-going -j 2 docs site
	@echo "Open site/index.html, or: $(VENV)/bin/python -m http.server --directory site"

docs-check: docs
	$(VENV)/bin/python scripts/check_site.py site

$(RELEASE)/.tools: pyproject.toml
	@echo "installing what builds and checks packages into $(RELEASE) ..."
	@$(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python $(PIP) 'build>=1.2' 'twine>=6.1' 'check-wheel-contents>=0.6'
	@touch $@

release-check: $(RELEASE)/.tools
	@$(RELEASE)/bin/python scripts/release_check.py

lint: $(VENV)/.dev
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/python -m mypy

format: $(VENV)/.dev
	$(VENV)/bin/python -m ruff format .
	$(VENV)/bin/python -m ruff check --fix .

clean:
	rm -rf $(VENV) $(CORE) $(LOWEST) $(PEERS) $(RELEASE) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache site docs/gallery docs/reference/cli docs/reference/api/generated
