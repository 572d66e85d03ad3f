"""La orden de `make publish-config`: escribe la dirección pública del libro (`libro/address.py` dice cómo)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).with_name("_ext")))

from libro.address import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
