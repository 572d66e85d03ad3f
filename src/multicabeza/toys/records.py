"""Los registros: medidas que no caben en vivo, guardadas en `results/*.json` con lo necesario para rehacerlas.

    python -m multicabeza.toys.records 02_saturation     # rehace uno
    python -m multicabeza.toys.records                   # los rehace todos («make results»)

Cada registro lleva el comando que lo rehace, las versiones, las semillas, los valores y una huella del código que lo
hizo. La huella no depende de comentarios ni docstrings: corregir una frase no obliga a repetir una hora de cálculo.
"""

import ast
import hashlib
import io
import json
import os
import platform
import re
import sys
import tempfile
import time
import tokenize
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from .intervals import Interval, t_interval

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Recipe:
    """Cómo se hace un registro.

    Attributes:
        function: «módulo:función» dentro de `multicabeza.toys`; recibe las semillas y devuelve los valores.
        code: de qué código depende: archivos de `multicabeza`, o «archivo:nombre» para una sola definición.
        seeds: las semillas, distintas de las que se usaron para ajustar el experimento.
        minutes: lo que tarda, más o menos, con dos núcleos.
        files: «módulo:función» que recibe las semillas y da lo que además va a `results/` (puntos de control): ruta →
            contenido.
    """

    function: str
    code: tuple[str, ...]
    seeds: tuple[int, ...]
    minutes: float
    files: str = ""


_ATTENTION = tuple(
    f"attention.py:{name}"
    for name in ("scaled_dot_product_attention", "_effective_mask", "_attend", "_explicit_attention")
)
_LAYER = (
    *_ATTENTION,
    *(
        f"attention.py:{name}"
        for name in ("split_heads", "merge_heads", "_has_fused_kernel", "_fused_attention", "MultiHeadAttention")
    ),
)

RECIPES = {
    "02_saturation": Recipe("saturation:record", ("toys/saturation.py",), tuple(range(10, 15)), 0.1),
    "02_scale": Recipe("lookup:record", ("toys/lookup.py", *_ATTENTION), tuple(range(10, 15)), 8),
    "02_causal": Recipe(
        "leak:record", ("toys/leak.py", *_ATTENTION, "attention.py:causal_mask"), tuple(range(10, 18)), 3
    ),
    "03_two_things": Recipe("two_things:record", ("toys/two_things.py", *_LAYER), tuple(range(10, 15)), 15),
    "03_coreference": Recipe(
        "coreference:record",
        ("toys/coreference.py", *_ATTENTION, "attention.py:split_heads", "attention.py:merge_heads"),
        tuple(range(10, 18)),
        12,
    ),
    "04_depth": Recipe("depth:record", ("toys/depth.py", *_LAYER), tuple(range(10, 15)), 16),
    "05_explanation": Recipe(
        "explanation:record",
        (
            "toys/explanation.py",
            "attention.py:split_heads",
            "attention.py:merge_heads",
            *(f"heads.py:{name}" for name in ("sink_score", "value_weighted_norm", "output_matrix")),
        ),
        tuple(range(10, 15)),
        2,
    ),
    "05_relations": Recipe(
        "relations:record",
        (
            "toys/relations.py",
            *(
                f"heads.py:{name}"
                for name in (
                    "word_attention",
                    "positional_score",
                    "confidence",
                    "rare_token_score",
                    "relation_accuracy",
                    "best_offset_baseline",
                    "_strongest_key",
                    "_mean_over_queries",
                )
            ),
        ),
        tuple(range(10, 15)),
        8,
    ),
    "06_phase": Recipe(
        "induction:record",
        (
            "toys/induction.py",
            *_LAYER,
            "attention.py:causal_mask",
            *(
                f"heads.py:{name}"
                for name in ("previous_token_score", "prefix_matching_score", "_mass_on", "_mean_over_queries")
            ),
            *(f"heads.py:{name}" for name in ("_same_token", "ablate", "_replacing", "_zero", "_mean", "_resample")),
        ),
        tuple(range(10, 15)),
        12,
        files="induction:checkpoint_files",
    ),
    "06_ablation": Recipe(
        "smollm_heads:record",
        (
            "toys/smollm_heads.py",
            *(f"toys/relations.py:{name}" for name in ("permuted", "initialised", "_changed")),
            *(
                f"heads.py:{name}"
                for name in (
                    "previous_token_score",
                    "prefix_matching_score",
                    "duplicate_token_score",
                    "sink_score",
                    "copying_score",
                    "_mass_on",
                    "_mean_over_queries",
                    "_same_token",
                    "output_matrix",
                    "record_heads",
                    "ablate",
                    "_replacing",
                    "_zero",
                    "_mean",
                    "_resample",
                )
            ),
        ),
        tuple(range(10, 15)),
        20,
    ),
    "06_retrieval": Recipe(
        "haystack:record",
        (
            "toys/haystack.py",
            *(
                f"toys/smollm_heads.py:{name}"
                for name in (
                    "PARAGRAPHS",
                    "Tail",
                    "_losses",
                    "attention_maps",
                    "choose",
                    "copy_loss",
                    "head_indices",
                    "matched_draws",
                    "repeated_tokens",
                    "text_losses",
                    "text_tokens",
                    "top_heads",
                )
            ),
            *(
                f"heads.py:{name}"
                for name in ("retrieval_score", "prefix_matching_score", "ablate", "_replacing", "_zero")
            ),
            "models.py:forward_with_cache",
            *(f"toys/relations.py:{name}" for name in ("permuted", "_changed")),
        ),
        (10,),
        20,
    ),
    "07_translation": Recipe(
        "translator:record",
        (
            "toys/translator.py",
            "toys/bilingual.py",
            *_LAYER,
            "attention.py:KVCache",
            *(
                f"heads.py:{name}"
                for name in (
                    "positional_score",
                    "relation_accuracy",
                    "best_offset_baseline",
                    "_strongest_key",
                    "_mean_over_queries",
                    "ablate",
                    "_replacing",
                    "_zero",
                )
            ),
            *(
                f"pruning.py:{name}"
                for name in (
                    "gate_heads",
                    "_gated",
                    "head_importance",
                    "_gate_gradients",
                    "HardConcrete",
                    "prune_heads",
                    "_plan",
                    "_apply",
                    "_positions",
                    "_shrink",
                )
            ),
        ),
        tuple(range(10, 13)),
        40,
        files="translator:checkpoint_files",
    ),
    "07_choice": Recipe(
        "choice:record",
        (
            "toys/choice.py",
            *(f"toys/induction.py:{name}" for name in ("sample_sequences", "exam", "parts", "InductionModel", "train")),
            *_LAYER,
            *(f"heads.py:{name}" for name in ("previous_token_score", "prefix_matching_score", "_mass_on")),
            *(f"pruning.py:{name}" for name in ("gate_heads", "_gated", "head_importance", "_gate_gradients")),
            "pruning.py:HardConcrete",
            *(f"pruning.py:{name}" for name in ("prune_heads", "_plan", "_linears", "_apply", "_positions", "_shrink")),
        ),
        tuple(range(20, 25)),
        12,
    ),
    "07_smollm2": Recipe(
        "smollm_pruning:record",
        (
            *(
                f"toys/smollm_pruning.py:{name}"
                for name in (
                    "CHOICE_PARAGRAPHS",
                    "SHARES",
                    "GROUP_SHARES",
                    "choice_tokens",
                    "text_loss",
                    "importance",
                    "ascending",
                    "stratified_order",
                    "same_layers",
                    "heads_of",
                    "whole_groups",
                    "iterative_orders",
                    "record",
                )
            ),
            *(f"toys/smollm_heads.py:{name}" for name in ("PARAGRAPHS", "TEXT_LENGTH", "text_tokens", "text_losses")),
            *(f"heads.py:{name}" for name in ("ablate", "_replacing", "_zero")),
            *(f"pruning.py:{name}" for name in ("gate_heads", "_gated", "head_importance", "_gate_gradients")),
        ),
        tuple(range(10, 20)),
        15,
    ),
    "07_speed": Recipe(
        "smollm_pruning:record_speed",
        (
            *(
                f"toys/smollm_pruning.py:{name}"
                for name in ("alternate", "speedup", "record_speed", "_speeds", "_compare", "_cache_numbers")
            ),
            *_LAYER,
            "pruning.py:gate_heads",
            "pruning.py:_gated",
            *(f"pruning.py:{name}" for name in ("prune_heads", "_plan", "_linears", "_apply", "_positions", "_shrink")),
        ),
        (10,),
        2,
    ),
    "08_gqa": Recipe(
        "gqa:record",
        ("toys/gqa.py", *_LAYER, "attention.py:KVCache", "attention.py:RotaryEmbedding"),
        tuple(range(10, 15)),
        22,
        files="gqa:checkpoint_files",
    ),
    "08_speed": Recipe("decoding:record", ("toys/decoding.py", *_LAYER, "attention.py:KVCache"), (10,), 4),
    "09_cost": Recipe("long_sequences:record", ("toys/long_sequences.py",), (10,), 8),
    "09_window": Recipe(
        "window:record",
        (
            *(
                f"toys/window.py:{name}"
                for name in (
                    "LENGTH",
                    "FIRST_MEASURED",
                    "WINDOWS",
                    "WINDOW",
                    "NUM_SINKS",
                    "SINK_COUNTS",
                    "ELSEWHERE",
                    "LONG_TEXTS",
                    "text_tokens",
                    "without_meaning",
                    "kept_places_mask",
                    "random_places",
                    "read",
                    "losses",
                    "head_output_norms",
                    "conditions",
                    "record",
                    "_means",
                )
            ),
            "toys/smollm_heads.py:PARAGRAPHS",
            "toys/smollm_pruning.py:CHOICE_PARAGRAPHS",
            "attention.py:causal_mask",
            "attention.py:sliding_window_mask",
        ),
        tuple(range(10, 15)),
        13,
    ),
    "09_sink": Recipe(
        "window:silence_record",
        (
            *(
                f"toys/window.py:{name}"
                for name in (
                    "LENGTH",
                    "FIRST_MEASURED",
                    "WINDOW",
                    "LONG_TEXTS",
                    "text_tokens",
                    "read_silencing",
                    "silence_record",
                )
            ),
            "toys/smollm_heads.py:PARAGRAPHS",
            "toys/smollm_pruning.py:CHOICE_PARAGRAPHS",
            *_LAYER,
            *(f"attention.py:{name}" for name in ("RotaryEmbedding", "causal_mask", "sliding_window_mask")),
        ),
        (10,),
        2,
    ),
    "09_needle": Recipe(
        "window:needle_record",
        (
            *(
                f"toys/window.py:{name}"
                for name in (
                    "NEEDLE_LENGTH",
                    "NEEDLE_WINDOW",
                    "NUM_SINKS",
                    "MEMORIES",
                    "WindowedDecoder",
                    "needle_record",
                )
            ),
            *(
                f"toys/haystack.py:{name}"
                for name in (
                    "NEW_TOKENS",
                    "DEPTHS",
                    "PER_TEMPLATE",
                    "LEAD",
                    "CHOICE",
                    "TEST",
                    "filler",
                    "build",
                    "examples",
                    "reply",
                    "is_right",
                )
            ),
            "toys/smollm_heads.py:PARAGRAPHS",
            *_LAYER,
            *(f"attention.py:{name}" for name in ("KVCache", "RotaryEmbedding", "sliding_window_mask")),
        ),
        (10,),
        6,
    ),
}


@dataclass(frozen=True)
class Record:
    """Un registro leído de su archivo."""

    id: str
    command: str
    versions: dict[str, str]
    seeds: list[int]
    code: list[str]
    code_hash: str
    values: dict[str, Any]

    def interval(self, *keys: object) -> Interval:
        """Intervalo t (95 %) de una medida entre semillas.

        Args:
            keys: el camino dentro de `values`, por ejemplo ("raw", 512, "median_norm").

        Returns:
            Media y extremos.

        Raises:
            KeyError: si el camino no existe; dice qué hay en ese punto.
        """
        node: Any = self.values
        for key in map(str, keys):
            if not isinstance(node, dict) or key not in node:
                known = ", ".join(node) if isinstance(node, dict) else "una lista de medidas"
                raise KeyError(f"El registro «{self.id}» no tiene {keys}: en «{key}» hay {known}.")
            node = node[key]
        return t_interval(node)


# --- La huella del código --------------------------------------------------------------------------------------------


def essential_code(source: str) -> str:
    """Quita de un programa lo que no se ejecuta: comentarios, docstrings y líneas en blanco.

    Trabaja sobre el texto, no sobre el árbol sintáctico, para dar lo mismo en todas las versiones de Python.

    Args:
        source: código Python.

    Returns:
        Las líneas que quedan.
    """
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                for row in range(first.lineno, first.end_lineno + 1):
                    lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _source_of(reference: str) -> str:
    """El texto de un archivo de `multicabeza`, o solo el de una de sus definiciones («archivo:nombre»)."""
    file, _, name = reference.partition(":")
    source = (PACKAGE / file).read_text(encoding="utf-8")
    if not name:
        return source
    for node in ast.parse(source).body:
        targets = [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
        if name in (getattr(node, "name", None), *targets):  # función, clase o constante
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
            return "\n".join(source.splitlines()[first - 1 : node.end_lineno])
    raise ValueError(f"«{file}» ya no define «{name}»: actualiza RECIPES en toys/records.py.")


def code_hash(code: Sequence[str]) -> str:
    """Huella (SHA-256) del código de un registro, sin comentarios ni docstrings.

    Args:
        code: referencias como las de `Recipe.code`.

    Returns:
        64 cifras hexadecimales.
    """
    digest = hashlib.sha256()
    for reference in code:
        digest.update(f"{reference}\n{essential_code(_source_of(reference))}\n".encode())
    return digest.hexdigest()


def is_current(record: Record) -> bool:
    """Dice si el código de hoy es el que hizo el registro."""
    recipe = RECIPES.get(record.id)
    return recipe is not None and record.code_hash == code_hash(recipe.code) and record.seeds == list(recipe.seeds)


# --- Leer ------------------------------------------------------------------------------------------------------------


def results_folders() -> list[Path]:
    """Dónde se buscan los registros: dentro del paquete instalado y, si no, en `results/` del repositorio."""
    return [PACKAGE / "results", PACKAGE.parents[1] / "results"]


def load_record(name: str, folders: Sequence[Path] | None = None) -> Record:
    """Lee un registro.

    Args:
        name: su nombre, sin «.json».
        folders: dónde buscar; si falta, donde diga `results_folders`.

    Returns:
        El registro.

    Raises:
        FileNotFoundError: si no está.
        ValueError: si el archivo no es un registro entero.
    """
    folders = results_folders() if folders is None else folders
    path = next((folder / f"{name}.json" for folder in folders if (folder / f"{name}.json").is_file()), None)
    if path is None:
        known = sorted({file.stem for folder in folders if folder.is_dir() for file in folder.glob("*.json")})
        raise FileNotFoundError(
            f"No hay ningún registro «{name}». Los que hay: {', '.join(known) or 'ninguno'}. "
            f"Si el nombre es correcto, hazlo con: {_command(name)}"
        )
    remake = f"Rehazlo con: {_command(name)}"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"El registro «{name}» está dañado: no es JSON entero ({error}). {remake}") from None
    fields = Record.__dataclass_fields__
    missing = [field for field in fields if not isinstance(data, dict) or field not in data]
    if missing:
        raise ValueError(f"El registro «{name}» está incompleto: le falta {', '.join(missing)}. {remake}")
    if data["id"] != name:
        raise ValueError(f"El archivo de «{name}» contiene otro registro, «{data['id']}»: lo renombraron. {remake}")
    return Record(**{field: data[field] for field in fields})


# --- Hacer -----------------------------------------------------------------------------------------------------------


def _command(name: str) -> str:
    return f"python -m multicabeza.toys.records {name}"


def _call(reference: str, seeds: Sequence[int]) -> dict:
    """Llama a «módulo:función» de `multicabeza.toys` con las semillas."""
    module, function = reference.split(":")
    return getattr(import_module(f"multicabeza.toys.{module}"), function)(list(seeds))


def make_record(name: str) -> Record:
    """Hace un registro: ejecuta su experimento con todas sus semillas. No escribe nada.

    Args:
        name: una clave de `RECIPES`.

    Returns:
        El registro.

    Raises:
        ValueError: si no hay receta con ese nombre.
    """
    import torch

    if name not in RECIPES:
        raise ValueError(f"No sé hacer el registro «{name}». Los que sé hacer: {', '.join(RECIPES)}.")
    recipe = RECIPES[name]
    before = code_hash(recipe.code)
    values = _call(recipe.function, recipe.seeds)
    if code_hash(recipe.code) != before:
        raise ValueError(f"El código de «{name}» cambió mientras se ejecutaba: vuelve a hacerlo.")
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return Record(name, _command(name), versions, list(recipe.seeds), list(recipe.code), before, values)


def write_record(record: Record, folder: Path) -> Path:
    """Escribe un registro de una vez: si algo falla a medias, el anterior queda como estaba.

    Args:
        record: el registro.
        folder: la carpeta, que debe existir.

    Returns:
        La ruta del archivo.

    Raises:
        ValueError: si hay un NaN o un infinito, que no caben en JSON.
    """
    text = json.dumps(asdict(record), ensure_ascii=False, indent=1, allow_nan=False)
    # Una lista de números, en una línea: se lee mejor y los cambios se ven.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), text)
    path = folder / f"{record.id}.json"
    _write(path, (text + "\n").encode())
    return path


def write_files(name: str, folder: Path) -> list[Path]:
    """Escribe lo que acompaña a un registro: sus puntos de control, si los tiene.

    Args:
        name: una clave de `RECIPES`.
        folder: la carpeta de los registros; dentro se crean las que hagan falta.

    Returns:
        Las rutas de los archivos, en orden.
    """
    recipe = RECIPES[name]
    paths = []
    for relative, content in (_call(recipe.files, recipe.seeds) if recipe.files else {}).items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content)
        paths.append(path)
    return paths


def _write(path: Path, content: bytes) -> None:
    """Escribe un archivo de una vez: mientras no esté entero, el anterior sigue en su sitio."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".tmp", delete=False) as draft:
        try:
            draft.write(content)
            draft.flush()
            os.fsync(draft.fileno())
            os.chmod(draft.name, 0o644)
            os.replace(draft.name, path)
        except BaseException:
            Path(draft.name).unlink(missing_ok=True)
            raise


def main(names: Sequence[str]) -> None:
    """Rehace los registros que se pidan, o todos, y los escribe en `results/` del repositorio."""
    folder = results_folders()[-1]
    if not folder.is_dir():
        raise SystemExit(f"Falta la carpeta {folder.name}/ del repositorio: los registros se rehacen desde un clon.")
    unknown = [name for name in names if name not in RECIPES]
    if unknown:
        raise SystemExit(f"No sé hacer {', '.join(unknown)}. Los que sé hacer: {', '.join(RECIPES)}.")
    names = list(names) or list(RECIPES)
    print(f"{len(names)} registros, unos {sum(RECIPES[name].minutes for name in names):.0f} minutos.", flush=True)
    for name in names:
        start = time.perf_counter()
        path = write_record(make_record(name), folder)
        write_files(name, folder)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
