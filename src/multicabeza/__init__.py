"""Atención multicabeza: el módulo que acompaña al libro (`import multicabeza as mc`).

Importarlo es barato: cada nombre público carga su archivo la primera vez que se usa, de modo que
transformers, bertviz e ipywidgets no se cargan hasta que hacen falta.
"""

from difflib import get_close_matches
from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "attention": (
        "scaled_dot_product_attention",
        "split_heads",
        "merge_heads",
        "causal_mask",
        "padding_mask",
        "sliding_window_mask",
        "KVCache",
        "MultiHeadAttention",
    ),
    "heads": ("ablate",),
    "pruning": ("head_importance", "HardConcrete", "gate_heads", "prune_heads"),
    "models": ("load_bert", "load_smollm2"),
    "views": ("show", "explore", "head_view", "model_view", "token_view", "predict", "activity", "calculator", "claim"),
    "laboratory": ("lab",),
    "switches": ("switchboard",),
    "checks": ("check",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}
_SUBMODULES = {"attention", "cost", "heads", "pruning", "models", "plots", "views", "checks", "toys", "activities"}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str):
    if name in _MODULE_OF:
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    alike = {known.lower(): known for known in (*__all__, *_SUBMODULES)}
    close = [] if name.startswith("__") else get_close_matches(name.lower(), alike, n=1)
    meant = f" ¿Querías decir «{alike[close[0]]}»?" if close else ""
    raise AttributeError(f"multicabeza no tiene «{name}».{meant} Lo que ofrece: {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_SUBMODULES})
