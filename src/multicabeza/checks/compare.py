"""Copiar y comparar resultados: primero el tipo, después la forma, después que sea finito, y por fin los valores."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

# Margen de los valores según la anchura del resultado, que no se juzga: 16 bits redondean más.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
DEFAULT_TOLERANCE = 1e-4
WHOLE_TOLERANCE = 1e-6  # relativo: de un entero dado como número real se admite lo que redondean 32 bits
UNREADABLE = object()  # en lugar de un tensor que no tiene números que mirar
LARGEST = 10**6  # elementos; de un resultado mayor que cualquiera de los nuestros se guarda solo la forma


def kind(tensor: Tensor) -> str:
    """Clase de número, que es lo único que se juzga del dtype: ni la anchura ni entero contra real."""
    if tensor.dtype is torch.bool:
        return "bool"
    return "complex" if tensor.is_complex() else "number"


def copy(value):
    """Copia profunda de tensores, listas, tuplas y diccionarios."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, list | tuple):
        return type(value)(copy(item) for item in value)
    if isinstance(value, dict):
        return {key: copy(item) for key, item in value.items()}
    return value


def snapshot(value):
    """Lo devuelto, tal como estaba: tensores corrientes (sin gradiente ni subclase, en la CPU), listas y tuplas."""
    if isinstance(value, Tensor):
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():  # una subclase no cuenta su versión
            if value.numel() > LARGEST:
                return torch.empty(value.shape, dtype=value.dtype, device="meta")
            plain = (value if type(value) is Tensor else Tensor.as_subclass(value, Tensor)).detach()
            try:
                plain = plain.to_dense() if plain.layout is not torch.strided else plain
                plain = plain.dequantize() if plain.is_quantized else plain
                plain = plain.cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
                plain.flatten()[:1].tolist()  # los de «meta», los ficticios y los anidados no se dejan leer
            except (RuntimeError, NotImplementedError):
                return UNREADABLE
            return plain
    if isinstance(value, list | tuple):
        return (list if isinstance(value, list) else tuple)(snapshot(item) for item in value)
    if isinstance(value, dict):
        return {key: snapshot(item) for key, item in value.items()}
    return value


def number(value) -> int | float | None:
    """El número que es `value` (de Python, de NumPy o un tensor de un elemento); None si no es un número real."""
    if isinstance(value, np.generic) or (isinstance(value, Tensor) and value.numel() == 1 and value.dim() <= 1):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        return None
    return int(value) if isinstance(value, int) else float(value)


def unpacked(value, expected):
    """Si se piden varios números, un tensor o un array de una dimensión vale como la tupla de los suyos."""
    several = isinstance(expected, tuple | list) and all(number(item) is not None for item in expected)
    return value.tolist() if several and isinstance(value, Tensor | np.ndarray) and value.ndim == 1 else value


def equal(mine, kept) -> bool:
    """¿Sigue siendo igual una entrada?"""
    if isinstance(kept, Tensor):
        same_kind = isinstance(mine, Tensor) and (mine.shape, mine.dtype) == (kept.shape, kept.dtype)
        return same_kind and torch.equal(mine.detach(), kept)
    if isinstance(kept, list | tuple):
        return type(mine) is type(kept) and len(mine) == len(kept) and all(map(equal, mine, kept))
    return mine == kept


def in_double(value):
    """La entrada con los números reales en doble precisión, para que la referencia no redondee."""
    if isinstance(value, Tensor):
        return value.double() if value.is_floating_point() else value.clone()
    if isinstance(value, list | tuple):
        return type(value)(in_double(item) for item in value)
    if isinstance(value, dict):
        return {key: in_double(item) for key, item in value.items()}
    return value


def difference(value, expected, *, like_mistake: bool = False) -> str | None:
    """Primera diferencia con lo esperado: «tipo», «claves», «forma», «finito» o «valores»; None si no la hay.

    De un número no se juzga la clase (64, 64.0, un tensor), salvo que sea un booleano.

    Con `like_mistake` se compara con lo que devuelve un error conocido: un NaN es igual a otro NaN.
    """
    if isinstance(expected, tuple | list):
        value = unpacked(value, expected)
        if not isinstance(value, tuple | list) or len(value) != len(expected):
            return "tipo"
        pairs = zip(value, expected, strict=True)
        return next((d for v, e in pairs if (d := difference(v, e, like_mistake=like_mistake))), None)
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            return "tipo"
        if value.keys() != expected.keys():
            return "claves"
        problems = (difference(value[key], item, like_mistake=like_mistake) for key, item in expected.items())
        return next((problem for problem in problems if problem), None)
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return _difference_of_numbers(number(value), expected, like_mistake)
    if not isinstance(expected, Tensor):
        if type(value) is not type(expected):
            return "tipo"
        return None if value == expected else "valores"
    if not isinstance(value, Tensor) or kind(value) != kind(expected):
        return "tipo"
    if value.shape != expected.shape:
        return "forma"
    if value.dtype is torch.bool:
        return None if torch.equal(value, expected) else "valores"
    mine, theirs = value.double(), expected.double()
    if not like_mistake and not torch.isfinite(mine).all():
        return "finito"
    margin = TOLERANCE.get(value.dtype, DEFAULT_TOLERANCE)
    return None if torch.allclose(mine, theirs, rtol=margin, atol=margin, equal_nan=like_mistake) else "valores"


def _difference_of_numbers(value, expected, like_mistake: bool) -> str | None:
    if value is None:
        return "tipo"
    if not math.isfinite(value):
        return None if like_mistake and str(value) == str(expected) else "finito"
    if isinstance(expected, int):
        margin = 0 if isinstance(value, int) else WHOLE_TOLERANCE
    else:
        margin = DEFAULT_TOLERANCE
    return None if abs(value - expected) <= margin * max(1, abs(expected)) else "valores"


def torch_is_sane() -> bool:
    """Las operaciones con que se sortean los casos y se calculan las referencias dan lo que deben.

    Si una celda ha sustituido una de ellas, se dice; corregir con una función cambiada sería inventar.
    """
    try:
        two = torch.tensor([[0.0, 2.0], [3.0, 0.0]], dtype=torch.float64)
        draws = [
            draw(2, 500, generator=torch.Generator().manual_seed(0)).mT.unique(dim=0).shape
            for draw in (torch.randn, torch.rand)
        ]
        whole = torch.randint(5, (500,), generator=torch.Generator().manual_seed(0))
        seen = [
            draws == [(500, 2), (500, 2)],
            whole.unique().tolist() == [0, 1, 2, 3, 4],
            sorted(torch.randperm(4).tolist()) == torch.arange(4).tolist() == [0, 1, 2, 3],
            (two @ two.mT).flatten().tolist() == [4.0, 0.0, 0.0, 9.0],
            [round(x, 6) for x in torch.softmax(two.log1p(), -1).flatten().tolist()] == [0.25, 0.75, 0.8, 0.2],
            [round(x, 6) for x in two.sin().flatten().tolist()] == [0.0, 0.909297, 0.14112, 0.0],
            [round(x, 6) for x in two.cos().flatten().tolist()] == [1.0, -0.416147, -0.989992, 1.0],
            two.masked_fill(two > 2, -1.0).tolist() == [[0.0, 2.0], [-1.0, 0.0]],
            torch.ones(2, 2, dtype=torch.bool).tril().tolist() == [[True, False], [True, True]],
            (torch.arange(3) < torch.as_tensor([2])[:, None]).tolist() == [[True, True, False]],
            torch.stack([torch.arange(2), torch.ones(2).long()], dim=-1).flatten(-2).tolist() == [0, 1, 1, 1],
            torch.allclose(two, two + 1e-9) and not torch.allclose(two, two + 1),
            torch.equal(two, two.clone()) and not torch.equal(two, two.mT),
            torch.isfinite(two).all().item() and not torch.isfinite(two / 0).any().item(),
        ]
    except Exception:
        return False
    return all(seen)
