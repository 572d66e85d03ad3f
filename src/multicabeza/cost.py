"""Lo que cuesta la atención: parámetros, operaciones, memoria de las puntuaciones y caché, con enteros exactos.

Letras: h cabezas de consulta, g cabezas de claves y valores (g = h en MHA, 1 < g < h en GQA, g = 1 en MQA), d_k la
dimensión de una cabeza, d_model la del modelo, n tokens. Todo es de UNA capa de autoatención, salvo la caché, que suma
las capas del modelo. Un producto (m×k)(k×p) son 2·m·k·p FLOPs: una multiplicación y una suma por término. No se cuentan
la softmax, la escala ni los sesgos, que crecen más despacio.

Las cuentas coinciden con los parámetros de los módulos reales y con `torch.utils.flop_counter`
(tests/unit/test_cost.py). Este archivo no necesita torch.
"""

from dataclasses import dataclass
from math import isqrt
from numbers import Integral
from typing import NamedTuple

__all__ = [
    "MODELS",
    "Flops",
    "ModelShape",
    "attention_flops",
    "attention_params",
    "kv_cache_bytes",
    "nearest_divisors",
    "score_bytes",
    "score_elements",
    "weight_shapes",
]


# --- Una capa de atención --------------------------------------------------------------------------------------------


def weight_shapes(
    d_model: int, num_heads: int, *, num_kv_heads: int | None = None, head_dim: int | None = None
) -> dict[str, tuple[int, int]]:
    """Formas de las cuatro matrices de una capa, con las cabezas juntas y para usarlas como `x @ W`.

    W^Q: d_model × h·d_k;  W^K y W^V: d_model × g·d_k;  W^O: h·d_k × d_model. La cabeza i son d_k columnas de W^Q y d_k
    filas de W^O.

    Args:
        d_model: dimensión del modelo.
        num_heads: cabezas de consulta h.
        num_kv_heads: cabezas de claves y valores g, divisor de h; si falta, h.
        head_dim: d_k; si falta, d_model / h.

    Returns:
        {"W_Q": (filas, columnas), "W_K": …, "W_V": …, "W_O": …}.

    Raises:
        ValueError: si un tamaño no es un entero ≥ 1, h no divide a d_model (sin `head_dim`) o g no divide a h.

    Fuente:
        Vaswani et al. (2017), §3.2.2; Ainslie et al. (2023) para g < h.
    """
    d_model, h, g, d_k = _sizes(d_model, num_heads, num_kv_heads, head_dim)
    return {"W_Q": (d_model, h * d_k), "W_K": (d_model, g * d_k), "W_V": (d_model, g * d_k), "W_O": (h * d_k, d_model)}


def attention_params(
    d_model: int, num_heads: int, *, num_kv_heads: int | None = None, head_dim: int | None = None, bias: bool = False
) -> int:
    """Parámetros de una capa de atención.

    d_model·d_k·(2h + 2g); con h = g y h·d_k = d_model son 4·d_model², sin que importe h. Los sesgos, uno por columna de
    cada matriz, suman h·d_k + 2·g·d_k + d_model.

    Args:
        d_model: dimensión del modelo.
        num_heads: cabezas de consulta h.
        num_kv_heads: cabezas de claves y valores g, divisor de h; si falta, h.
        head_dim: d_k; si falta, d_model / h.
        bias: si las cuatro proyecciones llevan sesgo. Hay modelos que solo lo ponen en Q, K y V (Qwen2.5).

    Returns:
        Número de parámetros.

    Raises:
        ValueError: como `weight_shapes`.

    Fuente:
        Vaswani et al. (2017), §3.2.2.
    """
    shapes = weight_shapes(d_model, num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim).values()
    return sum(rows * columns + (columns if bias else 0) for rows, columns in shapes)


class Flops(NamedTuple):
    """FLOPs de una capa: los de las cuatro proyecciones y los de los dos productos de la atención, QKᵀ y A·V."""

    projections: int
    attention: int

    @property
    def total(self) -> int:
        """Proyecciones más atención."""
        return self.projections + self.attention


def attention_flops(
    d_model: int,
    num_heads: int,
    n: int,
    *,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    batch: int = 1,
) -> Flops:
    """FLOPs de una pasada hacia delante, autoatención sobre n tokens.

    Proyecciones: 2·batch·n por cada parámetro de las cuatro matrices. Atención: 4·batch·h·n²·d_k. Con h = g y
    h·d_k = d_model son 8·n·d_model² y 4·n²·d_model: ninguna depende de h, y se igualan cuando n = 2·d_model. Una
    máscara causal no cambia la cuenta: la fórmula calcula también lo que luego tapa (un núcleo fusionado puede
    ahorrarse cerca de la mitad de la atención).

    Args:
        d_model: dimensión del modelo.
        num_heads: cabezas de consulta h.
        n: tokens de cada secuencia.
        num_kv_heads: cabezas de claves y valores g, divisor de h; si falta, h. No cambia los FLOPs de la atención.
        head_dim: d_k; si falta, d_model / h.
        batch: secuencias.

    Returns:
        `Flops` con `.projections`, `.attention` y `.total`.

    Raises:
        ValueError: como `weight_shapes`, y si n o batch no son enteros ≥ 1.

    Fuente:
        Vaswani et al. (2017), tabla 1: O(n²·d), que deja fuera las proyecciones, O(n·d²).
    """
    d_model, h, g, d_k = _sizes(d_model, num_heads, num_kv_heads, head_dim)
    n, batch = _whole("n", n), _whole("batch", batch)
    params = attention_params(d_model, h, num_kv_heads=g, head_dim=d_k)
    return Flops(projections=2 * batch * n * params, attention=4 * batch * h * n * n * d_k)


def score_elements(num_heads: int, n: int, *, batch: int = 1) -> int:
    """Números que hay en QKᵀ (y otros tantos en los pesos): batch·h·n².

    Crece con h aunque los FLOPs no: cada cabeza tiene su propia matriz n × n. g no influye.

    Args:
        num_heads: cabezas de consulta h.
        n: tokens de cada secuencia.
        batch: secuencias.

    Returns:
        Número de elementos de una capa.

    Raises:
        ValueError: si un argumento no es un entero ≥ 1.

    Fuente:
        Vaswani et al. (2017), ec. 1 y §3.2.2.
    """
    return _whole("batch", batch) * _whole("num_heads", num_heads) * _whole("n", n) ** 2


def score_bytes(num_heads: int, n: int, *, batch: int = 1, bytes_per_element: int = 4) -> int:
    """Memoria de las puntuaciones de una capa, si se guardan: batch·h·n²·bytes.

    Los núcleos fusionados (FlashAttention) no las guardan. La fórmula paso a paso guarda además los pesos: el doble.

    Args:
        num_heads: cabezas de consulta h.
        n: tokens de cada secuencia.
        batch: secuencias.
        bytes_per_element: 4 en float32, 2 en float16 y bfloat16.

    Returns:
        Bytes. 1 KiB son 1024 bytes; 1 MiB, 1024 KiB.

    Raises:
        ValueError: si un argumento no es un entero ≥ 1.

    Fuente:
        Vaswani et al. (2017), ec. 1; Dao et al. (2022) para lo que se ahorra al no guardarlas.
    """
    return score_elements(num_heads, n, batch=batch) * _whole("bytes_per_element", bytes_per_element)


# --- La caché de claves y valores ------------------------------------------------------------------------------------


def kv_cache_bytes(
    n_layers: int, num_kv_heads: int, head_dim: int, n_tokens: int, batch: int = 1, bytes_per_element: int = 2
) -> int:
    """Memoria de la caché de claves y valores de un modelo entero.

    2·L·g·d_k·bytes·n_tokens·batch: el 2 es por claves y valores. En MHA con h·d_k = d_model queda 2·L·d_model·bytes
    por token: cambiar h no la encoge; bajar g, sí.

    Args:
        n_layers: capas con caché, L.
        num_kv_heads: cabezas de claves y valores g.
        head_dim: d_k.
        n_tokens: tokens guardados.
        batch: secuencias.
        bytes_per_element: 2 en float16 y bfloat16, 4 en float32.

    Returns:
        Bytes. 1 KiB son 1024 bytes; 1 MiB, 1024 KiB.

    Raises:
        ValueError: si un argumento no es un entero ≥ 1.

    Fuente:
        Shazeer (2019); DeepSeek-AI (2024), tabla 1, que cuenta elementos por token.
    """
    elements = 2 * _whole("num_kv_heads", num_kv_heads) * _whole("head_dim", head_dim)
    return _cache_bytes(_whole("n_layers", n_layers) * elements, n_tokens, batch, bytes_per_element)


def _cache_bytes(elements_per_token: int, n_tokens: int, batch: int, bytes_per_element: int) -> int:
    size = _whole("n_tokens", n_tokens) * _whole("batch", batch) * _whole("bytes_per_element", bytes_per_element)
    return elements_per_token * size


# --- Modelos reales --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """Las medidas de la atención de un modelo publicado.

    Attributes:
        name: nombre del modelo.
        n_layers: capas L (las que llevan caché de claves y valores, si es un decodificador).
        num_heads: cabezas de consulta h.
        num_kv_heads: cabezas de claves y valores g.
        head_dim: d_k.
        d_model: dimensión del modelo; no siempre es h·d_k.
        source: de dónde salen las medidas.
        note: lo que hay que saber antes de comparar; vacía si no hay nada.
        has_cache: si genera token a token y, por tanto, usa la caché. BERT no.
        latent_dim: en MLA, números que guarda por token y capa en lugar de 2·g·d_k; None en los demás.
        window: tokens que como mucho guarda una capa de atención local; None si no las hay.
        n_local_layers: cuántas de las capas son locales.
    """

    name: str
    n_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    d_model: int
    source: str
    note: str = ""
    has_cache: bool = True
    latent_dim: int | None = None
    window: int | None = None
    n_local_layers: int = 0

    @property
    def kind(self) -> str:
        """«MHA», «GQA», «MQA» o «MLA»."""
        if self.latent_dim is not None:
            return "MLA"
        if self.num_kv_heads == self.num_heads:
            return "MHA"
        return "MQA" if self.num_kv_heads == 1 else "GQA"

    @property
    def cached_elements(self) -> int:
        """Números que guarda cada token en cada capa: 2·g·d_k, o `latent_dim` en MLA."""
        return 2 * self.num_kv_heads * self.head_dim if self.latent_dim is None else self.latent_dim

    def cache_bytes(self, n_tokens: int = 1, batch: int = 1, bytes_per_element: int = 2) -> int:
        """Memoria de la caché tras n_tokens; una capa local no pasa de `window`.

        Con un token es lo que cuesta cada uno mientras no se llena ninguna ventana.

        Args:
            n_tokens: tokens leídos o generados.
            batch: secuencias.
            bytes_per_element: 2 en float16 y bfloat16.

        Returns:
            Bytes. En un modelo sin caché en uso (`has_cache`), los que ocuparía.

        Raises:
            ValueError: si un argumento no es un entero ≥ 1.
        """
        n_tokens = _whole("n_tokens", n_tokens)
        kept = n_tokens if self.window is None else min(n_tokens, self.window)
        over_layers = (self.n_layers - self.n_local_layers) * n_tokens + self.n_local_layers * kept
        return _cache_bytes(self.cached_elements, over_layers, batch, bytes_per_element)

    def mha_cache_bytes(self, n_tokens: int = 1, batch: int = 1, bytes_per_element: int = 2) -> int:
        """La memoria que haría falta con las mismas cabezas y sin compartir nada: g = h, sin ventana ni compresión."""
        return kv_cache_bytes(self.n_layers, self.num_heads, self.head_dim, n_tokens, batch, bytes_per_element)


_CONFIG = "config.json de {}, según la tabla de configuraciones de LitGPT".format
_GEMMA = "Gemma Team (2024), arXiv 2408.00118, tabla 1"
_VASWANI = "Vaswani et al. (2017), tabla 3"
_ENCODER_DECODER = (
    "6 capas de codificador y 6 de decodificador. La caché que se cuenta es la de la autoatención del decodificador; "
    "la atención cruzada guarda además las claves y los valores de la frase de origen, que no crecen al generar."
)
_LLAMA_2_LIMIT = "Su contexto llega a 4096 tokens: más allá, la cuenta es hipotética."


def _gemma_note(product: int, d_model: int, n_layers: int) -> str:
    return (
        f"h·d_k = {product} no es d_model = {d_model}: d_k = d_model/h es una convención. {n_layers // 2} de sus "
        f"{n_layers} capas son locales (ventana de 4096 tokens), así que los bytes por token valen hasta 4096."
    )


# nombre, L, h, g, d_k, d_model, fuente, y lo demás.
_ROWS: tuple[tuple, ...] = (
    ("Transformer base", 6, 8, 8, 64, 512, _VASWANI, {"note": _ENCODER_DECODER}),
    (
        "Transformer big", 6, 16, 16, 64, 1024, _VASWANI,
        {"note": "La tabla deja d_k en blanco: vale el de base, 64 = 1024/16. " + _ENCODER_DECODER},
    ),
    (
        "GPT-2 small", 12, 12, 12, 64, 768, _CONFIG("openai-community/gpt2"),
        {"note": "Su contexto llega a 1024 tokens."},
    ),
    (
        "BERT-base", 12, 12, 12, 64, 768, "Devlin et al. (2019), arXiv 1810.04805, §3",
        {"note": "Codificador: lee la frase entera de una vez y no usa caché.", "has_cache": False},
    ),
    ("SmolLM2-135M", 30, 9, 3, 64, 576, _CONFIG("HuggingFaceTB/SmolLM2-135M"), {}),
    ("LLaMA-2-7B", 32, 32, 32, 128, 4096, _CONFIG("meta-llama/Llama-2-7b-hf"), {"note": _LLAMA_2_LIMIT}),
    ("LLaMA-2-70B", 80, 64, 8, 128, 8192, _CONFIG("meta-llama/Llama-2-70b-hf"), {"note": _LLAMA_2_LIMIT}),
    ("Llama-3-8B", 32, 32, 8, 128, 4096, _CONFIG("meta-llama/Meta-Llama-3-8B"), {}),
    ("Llama-3-70B", 80, 64, 8, 128, 8192, _CONFIG("meta-llama/Meta-Llama-3-70B"), {}),
    (
        "Mistral-7B", 32, 32, 8, 128, 4096, "Jiang et al. (2023), arXiv 2310.06825, tabla 1",
        {
            "note": "En la versión 0.1 todas las capas llevan ventana: la caché no pasa de 4096 tokens.",
            "window": 4096, "n_local_layers": 32,
        },
    ),
    ("Qwen2.5-7B", 28, 28, 4, 128, 3584, _CONFIG("Qwen/Qwen2.5-7B"), {}),
    (
        "Gemma-2-2B", 26, 8, 4, 256, 2304, _GEMMA,
        {"note": _gemma_note(2048, 2304, 26), "window": 4096, "n_local_layers": 13},
    ),
    (
        "Gemma-2-9B", 42, 16, 8, 256, 3584, _GEMMA,
        {"note": _gemma_note(4096, 3584, 42), "window": 4096, "n_local_layers": 21},
    ),
    (
        "Gemma-2-27B", 46, 32, 16, 128, 4608, _GEMMA,
        {"note": _gemma_note(4096, 4608, 46), "window": 4096, "n_local_layers": 23},
    ),
    ("Falcon-7B", 32, 71, 1, 64, 4544, _CONFIG("tiiuae/falcon-7b"), {}),
    (
        "DeepSeek-V2", 60, 128, 128, 128, 5120, "DeepSeek-AI (2024), arXiv 2405.04434, §2.1 y §3.1.2",
        {
            "note": "MLA: cada token guarda en cada capa un vector comprimido de 512 números, común a las 128 cabezas, "
            "y una clave con posición de 64; de ahí salen las claves y los valores de todas. Ocupa lo que GQA con "
            "2,25 cabezas de claves y valores.",
            "latent_dim": 512 + 64,
        },
    ),
)  # fmt: skip


class _Models(dict):
    """Un diccionario que, si le piden un modelo que no tiene, dice los que tiene."""

    def __missing__(self, name: object) -> ModelShape:
        raise KeyError(f"No hay ningún modelo {name!r}. Los que hay: {', '.join(self)}.")


MODELS: dict[str, ModelShape] = _Models(
    {
        name: ModelShape(
            name=name, n_layers=n_layers, num_heads=h, num_kv_heads=g, head_dim=d_k, d_model=d_model, source=source,
            **more,
        )
        for name, n_layers, h, g, d_k, d_model, source, more in _ROWS
    }
)  # fmt: skip


# --- Comprobaciones --------------------------------------------------------------------------------------------------


def _whole(name: str, value: object) -> int:
    """El entero ≥ 1, como `int` de Python, que no se desborda aunque llegue de numpy."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(
            f"Se esperaba {name} entero ≥ 1 y llegó {value!r}. "
            "Lo habitual: usar «/» en vez de «//» al calcular un tamaño, o pasar un tensor en vez de su tamaño."
        )
    return int(value)


def _sizes(
    d_model: object, num_heads: object, num_kv_heads: object | None, head_dim: object | None
) -> tuple[int, int, int, int]:
    """(d_model, h, g, d_k), comprobados."""
    d_model, h = _whole("d_model", d_model), _whole("num_heads", num_heads)
    if head_dim is None:
        if d_model % h:
            quotient = f"{d_model / h:.2f}".replace(".", ",")
            raise ValueError(
                f"d_model = {d_model} no se puede repartir entre {h} cabezas ({d_model} / {h} = {quotient}). Elige un "
                f"número de cabezas que divida a {d_model} ({_nearest(d_model, h)}) o da head_dim, como en Gemma 2."
            )
        head_dim = d_model // h
    g = h if num_kv_heads is None else _whole("num_kv_heads", num_kv_heads)
    if h % g:
        raise ValueError(
            f"{h} cabezas de consulta no se reparten por igual entre num_kv_heads = {g} cabezas de claves y valores. "
            f"Elige un divisor de {h} ({_nearest(h, g)}): 1 es MQA y {h} es MHA. Lo habitual: dar el número de cabezas "
            "por grupo, h/g, en vez del número de grupos."
        )
    return d_model, h, g, _whole("head_dim", head_dim)


def nearest_divisors(size: int, wanted: int) -> list[int]:
    """El divisor de `size` más próximo por debajo de `wanted` y el más próximo por encima, si lo hay.

    Args:
        size: número que se reparte.
        wanted: entre cuántos se quería repartir.

    Returns:
        Uno o dos divisores, en orden; `[wanted]` si ya lo es.

    Raises:
        ValueError: si un argumento no es un entero ≥ 1.
    """
    size, wanted = _whole("size", size), _whole("wanted", wanted)
    small = [k for k in range(1, isqrt(size) + 1) if size % k == 0]
    divisors = sorted({*small, *(size // k for k in small)})
    below = [k for k in divisors if k <= wanted]
    above = [k for k in divisors if k > wanted]
    return below[-1:] if wanted in below else below[-1:] + above[:1]


def _nearest(size: int, wanted: int) -> str:
    """Los divisores de `size` más próximos a `wanted`, por debajo y por encima: «8 o 16»."""
    return " o ".join(map(str, nearest_divisors(size, wanted)))
