# make run    set up and start the app          make study  fill the ledger of measured results
# make test   set up and run every check        make bench  measure speed and memory
PYTHON ?= python3
VENV ?= .venv
PORT ?= 8501
BIN = $(VENV)/bin
export OMP_NUM_THREADS ?= 1

.PHONY: run test study bench screenshots clean

run: $(VENV)/.run
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: $(VENV)/.dev
	$(BIN)/python -m tests.browser.chromium
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m core.lab.study --check
	$(BIN)/pytest -n 2 --dist loadfile --cov=core --cov-fail-under=95 --cov-report=term:skip-covered

study: $(VENV)/.run
	$(BIN)/python -m core.lab.study

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.serving

screenshots: $(VENV)/.dev
	$(BIN)/python -m tests.browser.screenshots

$(VENV)/.run: requirements.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
