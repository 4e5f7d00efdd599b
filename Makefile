# Where there is no make: python3 dev.py run|test|check
PYTHON ?= python3

.PHONY: run test check
run test check:
	@$(PYTHON) dev.py $@
