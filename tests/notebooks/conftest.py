"""Deja que las pruebas de esta carpeta importen sus vecinos `hygiene` y `colab_twin`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
