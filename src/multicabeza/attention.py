"""La atención, de la fórmula a la capa completa.

El archivo se lee de arriba abajo: dividir en cabezas, las máscaras, la atención de producto escalar, la caché de
claves y valores, las posiciones rotatorias y la capa que lo junta todo.

Letras de las formas: n_q consultas, n_k claves, h cabezas de consulta, g cabezas de claves y valores (g = h en MHA,
1 < g < h en GQA, g = 1 en MQA), d_k dimensión de una cabeza, d_v la de sus valores, d_model la del modelo.
Las máscaras son booleanas y dicen quién PUEDE atender: `True` = sí, como en `F.scaled_dot_product_attention`
(en `torch.nn.MultiheadAttention` es al revés).
"""

import weakref
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = [
    "KVCache",
    "MultiHeadAttention",
    "RotaryEmbedding",
    "causal_mask",
    "merge_heads",
    "padding_mask",
    "scaled_dot_product_attention",
    "sliding_window_mask",
    "split_heads",
]

Rotary = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


# --- Dividir en cabezas ----------------------------------------------------------------------------------------------


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Divide la última dimensión en cabezas: (..., n, h·d_k) → (..., h, n, d_k).

    La cabeza i recibe las columnas i·d_k … (i+1)·d_k − 1, el orden de `torch.nn.MultiheadAttention`. Primero se separa
    la última dimensión en (h, d_k) y después se intercambian posición y cabeza; un `view` directo a (..., h, n, d_k)
    da la misma forma y mezcla trozos de varios tokens.

    Args:
        x: tensor (..., n, h·d_k), ya proyectado (dividir la entrada sin proyectar es otra cosa: capítulo 04).
        num_heads: número de cabezas h ≥ 1; debe dividir a la última dimensión.

    Returns:
        Tensor (..., h, n, d_k): una vista, no una copia.

    Raises:
        ValueError: si x no tiene al menos dos dimensiones o si h no divide a la última.

    Fuente:
        Vaswani et al. (2017), §3.2.2.
    """
    _check_tensor("x", x)
    _check_integer("num_heads", num_heads)
    if x.ndim < 2:
        raise ValueError(
            f"Se esperaba x de forma (..., n, h·d_k) y llegó {_shape(x)}: falta la dimensión de posiciones."
        )
    if x.shape[-1] % num_heads:
        raise ValueError(_uneven_heads("la última dimensión de x", x.shape[-1], num_heads))
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def merge_heads(x: Tensor) -> Tensor:
    """Concatena las cabezas, al revés que `split_heads`: (..., h, n, d_k) → (..., n, h·d_k).

    Args:
        x: tensor (..., h, n, d_k).

    Returns:
        Tensor (..., n, h·d_k): la cabeza i ocupa las columnas i·d_k … (i+1)·d_k − 1.

    Raises:
        ValueError: si x no tiene al menos tres dimensiones.

    Fuente:
        Vaswani et al. (2017), §3.2.2 (el «Concat» de la atención multicabeza).
    """
    _check_tensor("x", x)
    if x.ndim < 3:
        raise ValueError(f"Se esperaba x de forma (..., h, n, d_k) y llegó {_shape(x)}: falta la dimensión de cabezas.")
    return x.transpose(-3, -2).flatten(-2)


# --- Máscaras: True = puede atender ----------------------------------------------------------------------------------


def causal_mask(n_q: int, n_k: int | None = None, *, device: torch.device | str | None = None) -> Tensor:
    """Máscara causal: cada posición se ve a sí misma y a las anteriores.

    M[i, j] = (j ≤ i + n_k − n_q). Se alinea abajo a la derecha: la última consulta ve todas las claves, como hace falta
    con una caché (las consultas son las últimas posiciones). Si hay más consultas que claves, las primeras filas quedan
    vacías. Ojo: el `is_causal` de PyTorch se alinea arriba a la izquierda.

    Args:
        n_q: número de consultas.
        n_k: número de claves; si falta, n_q.
        device: dónde crearla.

    Returns:
        Tensor booleano (n_q, n_k).

    Raises:
        ValueError: si un tamaño no es un entero ≥ 1.

    Fuente:
        Vaswani et al. (2017), §3.2.3.
    """
    n_k = n_q if n_k is None else n_k
    _check_integer("n_q", n_q)
    _check_integer("n_k", n_k)
    return torch.ones(n_q, n_k, dtype=torch.bool, device=device).tril(n_k - n_q)


def padding_mask(lengths: Tensor | Sequence[int], n: int, *, device: torch.device | str | None = None) -> Tensor:
    """Máscara de relleno: nadie atiende a las claves que están más allá del final de su secuencia.

    M[b, 0, 0, j] = (j < longitud_b). Oculta claves (columnas), no consultas: enmascarar también las filas de relleno
    las dejaría sin ninguna clave.

    Args:
        lengths: longitud real de cada secuencia, (batch,): lista o tensor de enteros entre 0 y n, relleno a la derecha.
        n: longitud con relleno, el número de claves.
        device: dónde crearla; si falta, donde esté `lengths`.

    Returns:
        Tensor booleano (batch, 1, 1, n), que vale para todas las cabezas y consultas.

    Raises:
        ValueError: si `lengths` no son enteros en una dimensión o alguno no está entre 0 y n.
    """
    _check_integer("n", n)
    lengths, came = _as_tensor(lengths, device), lengths
    if lengths is None or lengths.ndim != 1 or lengths.dtype == torch.bool or not _is_real(lengths, whole=True):
        kind = repr(came) if lengths is None else f"{_shape(lengths)} de tipo {lengths.dtype}"
        raise ValueError(
            f"Se esperaba lengths de forma (batch,), con enteros, y llegó {kind}. "
            "Si lo que tienes es la máscara del tokenizador (batch, n), no hace falta esta función: "
            "usa attention_mask.bool()[:, None, None, :]."
        )
    wrong = lengths[(lengths < 0) | (lengths > n)].tolist()
    if wrong:
        raise ValueError(
            f"Se esperaban longitudes entre 0 y n = {n} y llegó {wrong[0]}. "
            "Lo habitual: n no es la longitud con relleno de todo el lote, sino la de otra secuencia."
        )
    return (torch.arange(n, device=lengths.device) < lengths[:, None])[:, None, None, :]


def sliding_window_mask(
    n_q: int,
    window: int,
    n_k: int | None = None,
    *,
    num_sinks: int = 0,
    device: torch.device | str | None = None,
) -> Tensor:
    """Ventana deslizante causal: cada posición p ve las últimas `window`, ella incluida, y los primeros sumideros.

    Con p = i + n_k − n_q:  M[i, j] = (p − window < j ≤ p)  o  (j < num_sinks y j ≤ p).

    Args:
        n_q: número de consultas.
        window: posiciones recientes que ve cada consulta, ella incluida (≥ 1).
        n_k: número de claves; si falta, n_q. Alineada abajo a la derecha, como `causal_mask`.
        num_sinks: posiciones iniciales que todas las siguientes ven siempre (sumideros de atención).
        device: dónde crearla.

    Returns:
        Tensor booleano (n_q, n_k).

    Raises:
        ValueError: si un tamaño no es un entero válido.

    Fuente:
        Beltagy et al. (2020), §3.1 (ventana); Xiao et al. (2024), §3 (sumideros).
    """
    _check_integer("window", window)
    _check_integer("num_sinks", num_sinks, minimum=0)
    causal = causal_mask(n_q, n_k, device=device)
    n_k = causal.shape[1]
    key_position = torch.arange(n_k, device=device)  # (n_k,)
    query_position = torch.arange(n_k - n_q, n_k, device=device)[:, None]  # (n_q, 1)
    recent = key_position > query_position - window
    return causal & (recent | (key_position < num_sinks))


# --- La atención -----------------------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Atención de producto escalar escalado.

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V, con la softmax sobre las claves. Sin `need_weights` usa el núcleo
    fusionado de PyTorch, que no guarda los pesos; con `need_weights`, la fórmula paso a paso. Una consulta a la que la
    máscara no deja ninguna clave da ceros, en la salida y en los pesos (la softmax a secas daría NaN).

    Args:
        query: consultas (..., n_q, d_k).
        key: claves (..., n_k, d_k). Con cuatro dimensiones puede tener menos cabezas que `query`, (batch, g, n_k, d_k)
            con g divisor de h: las h/g primeras cabezas de consulta comparten la primera, y así sucesivamente (GQA).
        value: valores (..., n_k, d_v), con las mismas cabezas que `key`.
        mask: booleana, `True` = puede atender: (n_q, n_k), (batch, 1, n_q, n_k), (batch, 1, 1, n_k) o
            (batch, h, n_q, n_k).
        is_causal: añade la máscara causal, alineada abajo a la derecha (la última consulta ve todas las claves).
        need_weights: devuelve también los pesos.

    Returns:
        La salida (..., n_q, d_v), o la pareja (salida, pesos) con pesos (..., n_q, n_k) que suman 1 por filas.

    Raises:
        ValueError: si las formas, los tipos o los dispositivos no casan, o si la máscara no es booleana o no encaja.

    Fuente:
        Vaswani et al. (2017), ec. 1; Ainslie et al. (2023) para g < h.
    """
    _check_query_key_value(query, key, value)
    if mask is not None:
        batch, num_heads = query.shape[:2] if query.ndim == 4 else (None, None)
        _check_mask(mask, batch, num_heads, query.shape[-2], key.shape[-2], query.device)
    explicit = need_weights or not _has_fused_kernel(query, value)
    mask, torch_causal = _effective_mask(mask, query, key, is_causal=is_causal, explicit=explicit)
    output, weights = _attend(query, key, value, mask, torch_causal, explicit=explicit)
    return (output, weights) if need_weights else output


def _has_fused_kernel(query: Tensor, value: Tensor, dropout: float = 0.0) -> bool:
    """Si PyTorch tiene núcleo fusionado para el caso.

    En la CPU no lo tiene con dropout ni con d_v ≠ d_k: haría la fórmula, y con GQA repitiendo las claves.
    """
    return query.device.type != "cpu" or (dropout == 0.0 and query.shape[-1] == value.shape[-1])


def _effective_mask(
    mask: Tensor | None, query: Tensor, key: Tensor, *, is_causal: bool, explicit: bool
) -> tuple[Tensor | None, bool]:
    """Junta la máscara y la causalidad: (máscara, si el núcleo de PyTorch puede encargarse solo de la causalidad).

    PyTorch alinea su `is_causal` arriba a la izquierda: solo vale cuando n_q = n_k, y entonces ahorra construir la
    máscara y la mitad de las cuentas. Con una sola consulta no hay futuro que ocultar.
    """
    n_q, n_k = query.shape[-2], key.shape[-2]
    if not is_causal or n_q == 1:
        return mask, False
    if mask is None and n_q == n_k and not explicit:
        return None, True
    past = causal_mask(n_q, n_k, device=query.device)
    return (past if mask is None else mask & past), False


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    torch_causal: bool,
    *,
    explicit: bool,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor | None]:
    """La atención, ya comprobada y con la máscara de `_effective_mask`: salida y pesos (None si no es `explicit`)."""
    empty = None
    if mask is not None:
        # Una fila sin claves se deja atender a todas y su resultado se borra al final: ni NaN ni gradientes infinitos.
        empty = ~mask.any(dim=-1, keepdim=True)  # (..., n_q o 1, 1)
        mask = mask | empty
    if explicit:
        output, weights = _explicit_attention(query, key, value, mask, empty, dropout)
    else:
        output, weights = _fused_attention(query, key, value, mask, torch_causal, dropout), None
    if empty is not None:
        output = output.masked_fill(empty, 0.0)
    return output, weights


def _explicit_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, empty: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """La fórmula paso a paso: construye los pesos, h·n_q·n_k números."""
    query = query * query.shape[-1] ** -0.5  # escalar Q es escalar QKᵀ, con menos números
    scores = _per_group(query, key, lambda rows: rows @ key.mT)  # (..., h, n_q, n_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    if empty is not None:
        weights = weights.masked_fill(empty, 0.0)
    output = _per_group(F.dropout(weights, dropout), value, lambda rows: rows @ value)  # (..., h, n_q, d_v)
    return output, weights


def _fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, torch_causal: bool, dropout: float
) -> Tensor:
    """El núcleo de PyTorch: mismo resultado sin guardar los pesos. Las claves compartidas nunca se repiten."""
    grouped = query.ndim == 4 and query.shape[1] != key.shape[1]
    if grouped and query.shape[-2] == 1:
        # Al generar, las h/g consultas de un grupo son filas de un solo producto con sus claves.
        if mask is not None and mask.ndim == 4 and mask.shape[1] > 1:
            mask = mask.unflatten(1, (key.shape[1], -1)).flatten(2, 3)
        return _per_group(
            query, key, lambda rows: F.scaled_dot_product_attention(rows, key, value, mask, dropout_p=dropout)
        )
    return F.scaled_dot_product_attention(
        query, key, value, mask, dropout_p=dropout, is_causal=torch_causal, enable_gqa=grouped
    )


def _per_group(x: Tensor, shared: Tensor, operation: Callable[[Tensor], Tensor]) -> Tensor:
    """Aplica `operation` con las cabezas que comparten claves puestas como filas.

    (batch, h, n, ·) → (batch, g, h/g·n, ·), y vuelta. Así GQA es un producto por grupo y no hay que
    repetir `shared` (batch, g, n_k, ·).
    """
    if x.ndim != 4 or x.shape[1] == shared.shape[1]:
        return operation(x)
    n = x.shape[2]
    rows = x.unflatten(1, (shared.shape[1], -1)).flatten(2, 3)
    return operation(rows).unflatten(2, (-1, n)).flatten(1, 2)


# --- Caché de claves y valores ---------------------------------------------------------------------------------------


class KVCache:
    """Claves y valores de los tokens ya vistos, para no recalcularlos al generar. Una por capa y por generación.

    Con `window` guarda los últimos `window` tokens, el actual incluido, y además los primeros `num_sinks`: la memoria
    deja de crecer. Ocupa 2 · batch · g · d_k números por token guardado.

    Fuente:
        Shazeer (2019), §2.4 (generación incremental); Xiao et al. (2024), §3.2 (ventana con sumideros; ellos renumeran
        las posiciones dentro de la caché, aquí son las absolutas).
    """

    def __init__(self, window: int | None = None, num_sinks: int = 0) -> None:
        """Crea una caché vacía.

        Args:
            window: tokens recientes que se guardan, el actual incluido; None = todos.
            num_sinks: tokens iniciales que se guardan siempre; solo importa con ventana.

        Raises:
            ValueError: si `window` no es None ni un entero ≥ 1, o `num_sinks` no es un entero ≥ 0.
        """
        if window is not None:
            _check_integer("window", window)
        _check_integer("num_sinks", num_sinks, minimum=0)
        self.window = window
        self.num_sinks = num_sinks
        self.num_seen = 0  # tokens vistos desde el principio: la posición absoluta del siguiente
        self._keys: Tensor | None = None  # (batch, g, capacidad, d_k); valen las primeras len(self) posiciones
        self._values: Tensor | None = None
        self._layer: Callable[[], object] | None = None  # referencia débil a la capa que la usa

    def __len__(self) -> int:
        """Tokens guardados ahora."""
        return self.num_keys(0)

    def __repr__(self) -> str:
        return (
            f"KVCache(window={self.window}, num_sinks={self.num_sinks}): {len(self)} tokens de {self.num_seen} vistos"
        )

    @property
    def keys(self) -> Tensor | None:
        """Claves guardadas (batch, g, len(self), d_k), o None si está vacía."""
        return None if self._keys is None else self._keys[:, :, : len(self)]

    @property
    def values(self) -> Tensor | None:
        """Valores guardados (batch, g, len(self), d_v), o None si está vacía."""
        return None if self._values is None else self._values[:, :, : len(self)]

    def num_keys(self, num_new: int) -> int:
        """Número de claves n_k a las que atenderán `num_new` tokens nuevos (con 0, las guardadas)."""
        total = self.num_seen + num_new
        return total if self.window is None else min(total, self.num_sinks + self._span(num_new))

    def positions(self, num_new: int = 0) -> Tensor:
        """Posición absoluta de cada una de esas claves, (n_k,).

        Sirve para elegir las columnas de una máscara pensada para toda la secuencia: `mask[..., cache.positions(1)]`.
        """
        total, n_k = self.num_seen + num_new, self.num_keys(num_new)
        if n_k == total:
            return torch.arange(total)
        return torch.cat([torch.arange(self.num_sinks), torch.arange(total - self._span(num_new), total)])

    def update(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Guarda los tokens nuevos y devuelve las claves y valores a los que atienden.

        Con ventana, m tokens nuevos necesitan a la vez las claves de m ventanas, así que se devuelven hasta
        num_sinks + window + m − 1; al terminar se guardan solo num_sinks + window.

        Args:
            key: claves nuevas (batch, g, m, d_k), ya giradas si hay posiciones rotatorias.
            value: valores nuevos (batch, g, m, d_v).

        Returns:
            Claves (batch, g, n_k, d_k) y valores (batch, g, n_k, d_v), con los nuevos al final.

        Raises:
            ValueError: si no casan entre sí o con lo guardado.
        """
        self._check(key, value)
        num_old, num_new = len(self), key.shape[2]
        self._keys = self._append(self._keys, num_old, key)
        self._values = self._append(self._values, num_old, value)
        total = num_old + num_new
        keys, values = self._keys[:, :, :total], self._values[:, :, :total]
        if self.window is not None:
            self._keys, self._values = self._evict(keys, self.window), self._evict(values, self.window)
            keys, values = self._evict(keys, self._span(num_new)), self._evict(values, self._span(num_new))
        self.num_seen += num_new
        return keys, values

    def _span(self, num_new: int) -> int:
        """Tokens recientes que abarcan las ventanas de `num_new` consultas seguidas."""
        return self.window + max(num_new, 1) - 1

    def _evict(self, x: Tensor, num_recent: int) -> Tensor:
        """Los primeros `num_sinks` tokens y los últimos `num_recent`."""
        n = x.shape[2]
        if n <= self.num_sinks + num_recent:
            return x
        return torch.cat([x[:, :, : self.num_sinks], x[:, :, n - num_recent :]], dim=2)

    def _append(self, stored: Tensor | None, size: int, new: Tensor) -> Tensor:
        """Pone `new` tras las `size` primeras posiciones de `stored`.

        Copiar toda la caché en cada token costaría tanto como atenderla. Por eso se reserva el doble y se escribe en el
        hueco; con gradientes no se puede (se perdería lo que autograd recuerda) y con ventana no hace falta.
        """
        if stored is None:
            return new
        if self.window is not None or (torch.is_grad_enabled() and (new.requires_grad or stored.requires_grad)):
            return torch.cat([stored[:, :, :size], new], dim=2)
        total = size + new.shape[2]
        if total > stored.shape[2] or stored.is_inference() != torch.is_inference_mode_enabled():
            roomy = new.new_empty(*new.shape[:2], 2 * total, new.shape[3])
            roomy[:, :, :size] = stored[:, :, :size]
            stored = roomy
        stored[:, :, size:total] = new
        return stored

    def _check(self, key: Tensor, value: Tensor) -> None:
        _check_tensor("key", key)
        _check_tensor("value", value)
        if key.ndim != 4 or value.ndim != 4 or key.shape[:3] != value.shape[:3]:
            raise ValueError(
                "Se esperaban key (batch, g, m, d_k) y value (batch, g, m, d_v) con los mismos batch, g y m, "
                f"y llegaron {_shape(key)} y {_shape(value)}. Lo habitual: falta dividir en cabezas (split_heads)."
            )
        if self._keys is None:
            return
        for name, new, old in (("key", key, self._keys), ("value", value, self._values)):
            same_kind = new.dtype == old.dtype and new.device == old.device
            if new.shape[:2] != old.shape[:2] or new.shape[3] != old.shape[3] or not same_kind:
                raise ValueError(
                    f"La caché guarda {name} ({old.shape[0]}, {old.shape[1]}, …, {old.shape[3]}) en {old.dtype} y "
                    f"{old.device}, y llegó {_shape(new)} en {new.dtype} y {new.device}. "
                    "Lo habitual: reutilizar la caché con otro lote o con otra capa; crea una KVCache() nueva."
                )


# --- Posiciones rotatorias -------------------------------------------------------------------------------------------


class RotaryEmbedding(nn.Module):
    """Posiciones rotatorias (RoPE): gira cada consulta y cada clave un ángulo proporcional a su posición.

    La pareja de componentes (i, i + d_k/2) gira p·θ_i, con θ_i = base^(−2i/d_k): x' = x cos(pθ) + rot(x) sen(pθ),
    donde rot(x) = (−x₂, x₁) y x₁, x₂ son las dos mitades de x. De las posiciones, al producto q·k solo le llega
    entonces la distancia. Su y colaboradores emparejan componentes vecinas (2i, 2i + 1); aquí, mitades, como LLaMA
    en transformers: es lo mismo con las columnas en otro orden.

    Fuente:
        Su et al. (2021), «RoFormer», §3.2.2 (la rotación) y §3.4.2 (cómo se calcula).
    """

    def __init__(self, head_dim: int, base: float = 10000.0) -> None:
        """Crea las frecuencias.

        Args:
            head_dim: d_k, par.
            base: base de las frecuencias, > 0.

        Raises:
            ValueError: si d_k no es par o la base no es positiva.
        """
        super().__init__()
        _check_integer("head_dim", head_dim)
        if head_dim % 2 or not base > 0:
            raise ValueError(
                f"Se esperaban head_dim par (las componentes giran por parejas) y base > 0, y llegaron "
                f"{head_dim} y {base}. Lo habitual: pasar d_model en vez de la dimensión de una cabeza."
            )
        # Un tensor corriente, no un búfer: así module.to(torch.bfloat16) no redondea los ángulos.
        self.frequencies = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)  # (d_k/2,)
        self.scaling = 1.0  # factor de cos y sen que usan algunas extensiones de contexto (YaRN)

    def forward(self, query: Tensor, key: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Gira consultas y claves.

        Args:
            query: (batch, h, n, d_k).
            key: (batch, g, n, d_k).
            positions: posiciones absolutas (n,), enteras.

        Returns:
            La pareja girada, con las mismas formas y tipos.
        """
        dtype = torch.promote_types(query.dtype, torch.float32)
        angles = positions.to(dtype)[:, None] * self.frequencies.to(positions.device, dtype)  # (n, d_k/2)
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = (self.scaling * angles.cos()).to(query.dtype), (self.scaling * angles.sin()).to(query.dtype)
        return query * cos + _rotate_half(query) * sin, key * cos + _rotate_half(key) * sin


def _rotate_half(x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


# --- La capa ---------------------------------------------------------------------------------------------------------


class MultiHeadAttention(nn.Module):
    """Atención multicabeza: MHA, GQA y MQA, autoatención y atención cruzada.

    MultiHead(X, C) = Concat(head_1, …, head_h) W^O,  head_i = Attention(X W_i^Q, C W_j^K, C W_j^V),
    con C = X en la autoatención y j = ⌊i·g/h⌋, la cabeza de claves y valores que le toca a la consulta i (contando
    desde 0). Las proyecciones van juntas en `qkv_proj`, una sola matriz con las filas de Q, K y V en ese orden:
    ((h + 2g)·d_k, d_model). W^O es `out_proj`: (d_model, h·d_k).

    | aquí | Vaswani et al. (2017) | `torch.nn.MultiheadAttention` |
    |---|---|---|
    | `d_model`, `num_heads`, `head_dim` | d_model, h, d_k = d_v | `embed_dim`, `num_heads`, `head_dim` |
    | `qkv_proj.weight` | W^Q, W^K, W^V, traspuestas y apiladas | `in_proj_weight` |
    | `out_proj.weight` | W^O traspuesta | `out_proj.weight` |

    Fuente:
        Vaswani et al. (2017), §3.2.2; Shazeer (2019) para g = 1; Ainslie et al. (2023) para 1 < g < h.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        rotary: Rotary | None = None,
    ) -> None:
        """Crea la capa, con la inicialización de `torch.nn.MultiheadAttention`.

        Args:
            d_model: dimensión de la entrada y de la salida.
            num_heads: cabezas de consulta h.
            num_kv_heads: cabezas de claves y valores g, divisor de h; si falta, h (MHA). Con 1 es MQA.
            head_dim: d_k; si falta, d_model / h. Es una convención, no una ley: Gemma 2 usa otra.
            dropout: probabilidad de anular cada peso al entrenar, en [0, 1).
            bias: si las proyecciones llevan sesgo.
            rotary: función (query, key, positions) → (query, key) que se aplica antes de guardar en la caché, con
                posiciones absolutas; por ejemplo, `RotaryEmbedding(head_dim)`.

        Raises:
            ValueError: si los tamaños no son enteros ≥ 1, no se dividen o el dropout no está en [0, 1).
        """
        super().__init__()
        _check_integer("d_model", d_model)
        _check_integer("num_heads", num_heads)
        if head_dim is None:
            if d_model % num_heads:
                raise ValueError(_uneven_heads("d_model", d_model, num_heads))
            head_dim = d_model // num_heads
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        _check_integer("head_dim", head_dim)
        _check_integer("num_kv_heads", num_kv_heads)
        if num_heads % num_kv_heads:
            raise ValueError(_uneven_groups(num_heads, num_kv_heads))
        if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
            raise ValueError(
                f"Se esperaba dropout en [0, 1) y llegó {dropout!r}. Es la probabilidad de ANULAR un peso, no de "
                "conservarlo, y no un porcentaje."
            )
        if rotary is not None and not callable(rotary):
            raise ValueError(
                "Se esperaba rotary como función (query, key, positions) → (query, key) y llegó "
                f"{type(rotary).__name__}. Lo habitual: pasar True o la base; usa RotaryEmbedding(head_dim)."
            )
        self.d_model = d_model
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.dropout = float(dropout)
        self.rotary = rotary
        self.qkv_proj = nn.Linear(d_model, (num_heads + 2 * num_kv_heads) * head_dim, bias=bias)
        self.out_proj = nn.Linear(num_heads * head_dim, d_model, bias=bias)
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        if bias:
            nn.init.zeros_(self.qkv_proj.bias)
            nn.init.zeros_(self.out_proj.bias)

    def extra_repr(self) -> str:
        """Tamaños, para `print(layer)`."""
        return (
            f"d_model={self.d_model}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}, "
            f"head_dim={self.head_dim}, dropout={self.dropout}"
        )

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: KVCache | None = None,
        need_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Atiende de cada posición de `x` a `context`, o al propio `x`.

        Args:
            x: (batch, n_q, d_model), de donde salen las consultas.
            context: (batch, n_k, d_model), de donde salen claves y valores (atención cruzada); si falta, x.
            mask: booleana, `True` = puede atender: (n_q, n_k), (batch, 1, n_q, n_k), (batch, 1, 1, n_k) o
                (batch, h, n_q, n_k). n_k cuenta las claves de la caché.
            is_causal: añade la máscara causal, alineada abajo a la derecha, también con caché.
            cache: claves y valores anteriores; se modifica añadiendo los de x. Si tiene ventana, cada consulta ve la
                suya (y los sumideros) también cuando llegan varios tokens a la vez.
            need_weights: devuelve también los pesos, con la fórmula explícita (h·n_q·n_k números en memoria).

        Returns:
            La salida (batch, n_q, d_model), o la pareja (salida, pesos) con pesos (batch, h, n_q, n_k): lo que sale de
            la softmax, antes del dropout. Una consulta sin ninguna clave permitida da ceros, en la salida y en los
            pesos.

        Raises:
            ValueError: si las formas, los tipos o las opciones no casan.
        """
        self._check_inputs(x, context, mask, cache)
        n_q = x.shape[1]
        query, key, value = self._project(x, context)  # (batch, h, n_q, d_k), (batch, g, n_k, d_k) ×2
        if self.rotary is not None:
            query, key = self._rotate(query, key, 0 if cache is None else cache.num_seen)
        if cache is not None:
            key, value = cache.update(key, value)
            if cache.window is not None and n_q > 1:
                visible = sliding_window_mask(
                    n_q, cache.window, key.shape[2], num_sinks=cache.num_sinks, device=x.device
                )
                mask = visible if mask is None else mask & visible
        dropout = self.dropout if self.training else 0.0
        explicit = need_weights or not _has_fused_kernel(query, value, dropout)
        mask, torch_causal = _effective_mask(mask, query, key, is_causal=is_causal, explicit=explicit)
        heads, weights = _attend(query, key, value, mask, torch_causal, explicit=explicit, dropout=dropout)
        output = self.out_proj(merge_heads(heads))  # (batch, n_q, d_model)
        if mask is not None and self.out_proj.bias is not None:
            # Quien no puede atender a nada no escribe nada: tampoco el sesgo de W^O.
            silent = ~mask.any(dim=-1)  # (n_q,) o (batch o 1, h o 1, n_q o 1)
            output = output.masked_fill((silent.all(dim=1) if silent.ndim == 3 else silent)[..., None], 0.0)
        return (output, weights) if need_weights else output

    def _project(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Consultas, claves y valores, ya divididos en cabezas. En la autoatención, con un solo producto."""
        d_q, d_kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        if context is None:
            query, key, value = self.qkv_proj(x).split([d_q, d_kv, d_kv], dim=-1)
        else:
            weight_q, weight_kv = self.qkv_proj.weight.split([d_q, 2 * d_kv])
            bias_q, bias_kv = (None, None) if self.qkv_proj.bias is None else self.qkv_proj.bias.split([d_q, 2 * d_kv])
            query = F.linear(x, weight_q, bias_q)
            key, value = F.linear(context, weight_kv, bias_kv).chunk(2, dim=-1)
        return (
            split_heads(query, self.num_heads),
            split_heads(key, self.num_kv_heads),
            split_heads(value, self.num_kv_heads),
        )

    def _rotate(self, query: Tensor, key: Tensor, first: int) -> tuple[Tensor, Tensor]:
        positions = torch.arange(first, first + query.shape[2], device=query.device)
        rotated = self.rotary(query, key, positions)
        if not isinstance(rotated, tuple | list) or [t.shape for t in rotated] != [query.shape, key.shape]:
            came = [_shape(t) for t in rotated] if isinstance(rotated, tuple | list) else type(rotated).__name__
            raise ValueError(
                f"Se esperaba que rotary devolviera la pareja (query, key) de formas {_shape(query)} y {_shape(key)}, "
                f"y devolvió {came}. Lo habitual: devolver solo uno de los dos, o cambiarles la forma."
            )
        return rotated

    def _check_inputs(self, x: Tensor, context: Tensor | None, mask: Tensor | None, cache: KVCache | None) -> None:
        """Todo se comprueba antes de tocar la caché: tras un error se puede repetir la llamada."""
        self._check_sequence("x", x, "n_q")
        if context is not None:
            self._check_sequence("context", context, "n_k")
            if context.shape[0] != x.shape[0]:
                raise ValueError(
                    f"Se esperaban x y context con el mismo batch, y llegaron {_shape(x)} y {_shape(context)}. "
                    "Lo habitual: la primera dimensión es batch, no la posición (batch_first)."
                )
            if cache is not None:
                raise ValueError(
                    "cache es para la autoatención, y llegó junto con context: en la atención cruzada las claves no "
                    "crecen al generar, y guardarlas en cada paso las duplicaría. Quita una de las dos cosas."
                )
            if self.rotary is not None:
                raise ValueError(
                    "rotary es para la autoatención, y llegó junto con context: gira consultas y claves según su "
                    "posición en UNA secuencia. Crea la capa de atención cruzada con rotary=None."
                )
        if cache is not None:
            if not isinstance(cache, KVCache):
                raise ValueError(
                    f"Se esperaba cache de tipo KVCache y llegó {type(cache).__name__}. "
                    "Lo habitual: pasar la caché de transformers o True; crea una con KVCache()."
                )
            if cache._layer is not None and cache._layer() is not self:
                raise ValueError(
                    "Esta caché guarda las claves de otra capa. Cada capa necesita la suya: "
                    "caches = [KVCache() for _ in layers]."
                )
        if mask is not None:
            n_q = x.shape[1]
            n_k = context.shape[1] if context is not None else n_q if cache is None else cache.num_keys(n_q)
            _check_mask(mask, x.shape[0], self.num_heads, n_q, n_k, x.device, cached=n_k - n_q if cache else 0)
        if cache is not None:
            cache._layer = weakref.ref(self)

    def _check_sequence(self, name: str, x: Tensor, length: str) -> None:
        _check_tensor(name, x)
        if x.ndim != 3 or x.shape[2] != self.d_model or x.shape[1] == 0:
            if x.ndim == 2 and x.shape[1] == self.d_model:
                cause = f"falta la dimensión batch; usa {name}.unsqueeze(0)"
            elif x.ndim == 3 and x.shape[2] == self.d_model:
                cause = "no hay ningún token"
            else:
                cause = "la última dimensión no es la del modelo, o la entrada ya viene dividida en cabezas"
            raise ValueError(
                f"Se esperaba {name} de forma (batch, {length}, d_model = {self.d_model}) y llegó {_shape(x)}: {cause}."
            )
        weight = self.qkv_proj.weight
        if x.device != weight.device:
            raise ValueError(
                f"Se esperaba {name} en {weight.device}, donde está la capa, y llegó en {x.device}. "
                f"Mueve uno de los dos: {name}.to({str(weight.device)!r})."
            )
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise ValueError(
                f"Se esperaba {name} de tipo {weight.dtype}, el de la capa, y llegó {x.dtype}. Lo habitual: pasar "
                f"identificadores de tokens sin su embedding, o mezclar precisiones; usa {name}.to({weight.dtype})."
            )

    # --- Copiar los pesos de otras capas ---

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """Copia una `torch.nn.MultiheadAttention`: mismos pesos, dropout, tipo, dispositivo y modo (train o eval).

        La copia recibe siempre (batch, n, d_model), aunque el original tenga `batch_first=False`, y sus máscaras dicen
        lo contrario: aquí `True` = puede atender.

        Args:
            module: la capa original; no se modifica ni comparte pesos.

        Returns:
            Una `MultiHeadAttention` con las mismas salidas.

        Raises:
            ValueError: si no es una `nn.MultiheadAttention`, o usa `kdim`, `vdim`, `add_bias_kv` o `add_zero_attn`.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise ValueError(
                f"Se esperaba una torch.nn.MultiheadAttention y llegó {type(module).__name__}. "
                "Para las capas de transformers está MultiHeadAttention.from_transformers."
            )
        unsupported = {
            "kdim o vdim distintos de embed_dim": module.in_proj_weight is None,
            "bias_k y bias_v (add_bias_kv=True)": module.bias_k is not None or module.bias_v is not None,
            "add_zero_attn=True": module.add_zero_attn,
        }
        for option, used in unsupported.items():
            if used:
                raise ValueError(
                    f"Se esperaba una capa corriente y llegó una con {option}, que añade claves o proyecciones que "
                    "MultiHeadAttention no tiene: la copia daría otras salidas. Crea la original sin esa opción."
                )
        return cls._from_weights(
            module,
            num_heads=module.num_heads,
            num_kv_heads=module.num_heads,
            dropout=module.dropout,
            qkv=(module.in_proj_weight, module.in_proj_bias),
            out=(module.out_proj.weight, module.out_proj.bias),
        )

    @classmethod
    def from_transformers(cls, layer: nn.Module) -> "MultiHeadAttention":
        """Copia la atención de una capa de GPT-2, BERT o LLaMA de transformers.

        Acepta el bloque entero (`GPT2Block`, `BertLayer`, `LlamaDecoderLayer`) o su atención (`GPT2Attention`,
        `BertAttention`, `BertSelfAttention`, `LlamaAttention`). Copia lo que hay entre la entrada de la atención y la
        salida de W^O; no la normalización, el residuo ni el dropout de la salida. `BertSelfAttention` no tiene W^O: su
        copia lleva la identidad. Los modelos causales (GPT-2, LLaMA) piden `is_causal=True` en cada llamada. LLaMA
        trae su `rotary`.

        Args:
            layer: la capa original; no se modifica ni comparte pesos.

        Returns:
            Una `MultiHeadAttention` con las mismas salidas.

        Raises:
            ValueError: si la capa es de otra familia, o usa una variante que aquí no existe.
        """
        for inner in ("attn", "attention", "self_attn"):  # del bloque a su atención
            if type(layer).__name__ in ("GPT2Block", "BertLayer", "LlamaDecoderLayer") and hasattr(layer, inner):
                layer = getattr(layer, inner)
        kind = type(layer).__name__
        if kind == "GPT2Attention":
            return cls._from_gpt2(layer)
        if kind == "BertAttention":
            return cls._from_bert(layer.self, layer.output.dense)
        if kind in ("BertSelfAttention", "BertCrossAttention"):
            return cls._from_bert(layer, None)
        if kind == "LlamaAttention":
            return cls._from_llama(layer)
        raise ValueError(
            "Se esperaba una capa de GPT-2, BERT o LLaMA de transformers (bloque o atención: GPT2Block, BertLayer, "
            f"LlamaDecoderLayer…) y llegó {kind}. Lo habitual: pasar el modelo entero en vez de una de sus capas, como "
            "model.h[0], model.encoder.layer[0] o model.layers[0]."
        )

    @classmethod
    def _from_gpt2(cls, layer: nn.Module) -> "MultiHeadAttention":
        # Conv1D guarda la matriz como x @ W: es la traspuesta de nn.Linear.
        projections = [layer.q_attn, layer.c_attn] if layer.is_cross_attention else [layer.c_attn]
        return cls._from_weights(
            layer,
            num_heads=layer.num_heads,
            num_kv_heads=layer.num_heads,
            dropout=layer.attn_dropout.p,
            qkv=(torch.cat([p.weight.T for p in projections]), torch.cat([p.bias for p in projections])),
            out=(layer.c_proj.weight.T, layer.c_proj.bias),
            scaling=layer.scaling,
        )

    @classmethod
    def _from_bert(cls, layer: nn.Module, dense: nn.Linear | None) -> "MultiHeadAttention":
        projections = (layer.query, layer.key, layer.value)
        if dense is None:
            weight = torch.eye(layer.all_head_size).to(layer.query.weight)
            dense_weights = (weight, weight.new_zeros(len(weight)))
        else:
            dense_weights = (dense.weight, dense.bias)
        return cls._from_weights(
            layer,
            num_heads=layer.num_attention_heads,
            num_kv_heads=layer.num_attention_heads,
            dropout=layer.dropout.p,
            qkv=(torch.cat([p.weight for p in projections]), torch.cat([p.bias for p in projections])),
            out=dense_weights,
            scaling=layer.scaling,
        )

    @classmethod
    def _from_llama(cls, layer: nn.Module) -> "MultiHeadAttention":
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding  # solo si ya se usa transformers

        rope_type = layer.config.rope_parameters["rope_type"]
        if rope_type in ("dynamic", "longrope"):
            raise ValueError(
                f"Se esperaban posiciones rotatorias de frecuencias fijas y llegó rope_type = {rope_type!r}, cuyas "
                "frecuencias cambian con la longitud de la secuencia: aquí no existe."
            )
        original = LlamaRotaryEmbedding(layer.config)
        rotary = RotaryEmbedding(layer.head_dim)
        rotary.frequencies, rotary.scaling = original.inv_freq.double(), original.attention_scaling
        projections = (layer.q_proj, layer.k_proj, layer.v_proj)
        biased = layer.q_proj.bias is not None
        return cls._from_weights(
            layer,
            num_heads=layer.config.num_attention_heads,
            num_kv_heads=layer.config.num_key_value_heads,
            dropout=layer.attention_dropout,
            qkv=(
                torch.cat([p.weight for p in projections]),
                torch.cat([p.bias for p in projections]) if biased else None,
            ),
            out=(layer.o_proj.weight, layer.o_proj.bias),
            scaling=layer.scaling,
            rotary=rotary,
        )

    @classmethod
    def _from_weights(
        cls,
        original: nn.Module,
        *,
        num_heads: int,
        num_kv_heads: int,
        dropout: float,
        qkv: tuple[Tensor, Tensor | None],
        out: tuple[Tensor, Tensor | None],
        scaling: float | None = None,
        rotary: Rotary | None = None,
    ) -> "MultiHeadAttention":
        """Capa con copias de esos pesos, en su tipo y dispositivo. `scaling` es la escala que usaba la original."""
        d_model, head_dim = out[0].shape[0], out[0].shape[1] // num_heads
        with torch.device("meta"):  # sin reservar ni sortear pesos que se van a sustituir
            layer = cls(
                d_model,
                num_heads,
                num_kv_heads=num_kv_heads,
                head_dim=head_dim,
                dropout=dropout,
                bias=qkv[1] is not None,
            )
        for projection, weights in ((layer.qkv_proj, qkv), (layer.out_proj, out)):
            for name, weight in zip(("weight", "bias"), weights, strict=True):
                setattr(projection, name, None if weight is None else nn.Parameter(weight.detach().clone()))
        if scaling is not None:
            # La atención escala siempre por 1/√d_k: si la original usaba otra escala, la diferencia pasa a W^Q.
            with torch.no_grad():
                for parameter in (layer.qkv_proj.weight, layer.qkv_proj.bias):
                    if parameter is not None:
                        parameter[: num_heads * head_dim] *= scaling * head_dim**0.5
        layer.rotary = rotary
        return layer.train(original.training)


# --- Comprobaciones --------------------------------------------------------------------------------------------------


def _shape(x: object) -> str:
    return str(tuple(x.shape)) if isinstance(x, Tensor) else type(x).__name__


def _check_tensor(name: str, x: object) -> None:
    if not isinstance(x, Tensor):
        raise ValueError(
            f"Se esperaba {name} como tensor de PyTorch y llegó {type(x).__name__}. "
            "Conviértelo antes: torch.tensor(...) o torch.from_numpy(...)."
        )
    if x.layout is not torch.strided:
        raise ValueError(
            f"Se esperaba {name} como tensor denso y llegó uno disperso ({x.layout}). Conviértelo antes: to_dense()."
        )


def _as_tensor(values: object, device: torch.device | str | None) -> Tensor | None:
    """Los números de una lista o un array como tensor; None si no son números o no hacen una tabla."""
    try:
        values = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        return None
    return values if device is None else values.to(device)  # si el dispositivo no existe, lo dice torch


def _is_real(x: Tensor, *, whole: bool = False) -> bool:
    """Si son números reales con los que torch opera en la CPU (los de 8 bits con decimales, no); o enteros."""
    if x.is_floating_point():
        return not whole and x.dtype.itemsize > 1
    return whole and not x.is_complex()


def _check_integer(name: str, n: object, minimum: int = 1) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < minimum:
        raise ValueError(
            f"Se esperaba {name} entero ≥ {minimum} y llegó {n!r}. "
            "Lo habitual: usar «/» en vez de «//» al calcular un tamaño, o pasar un tensor en vez de su tamaño."
        )


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:5])) + ("…" if len(numbers) > 5 else "")


def _divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


def _uneven_heads(name: str, size: int, num_heads: int) -> str:
    quotient = f"{size / num_heads:.2f}".replace(".", ",")
    return (
        f"{name} = {size} no se puede repartir entre {num_heads} cabezas ({size} / {num_heads} = {quotient}). "
        f"Elige un número de cabezas que divida a {size}: {_listed(_divisors(size))}."
    )


def _uneven_groups(num_heads: int, num_kv_heads: int) -> str:
    return (
        f"{num_heads} cabezas de consulta no se reparten por igual entre num_kv_heads = {num_kv_heads} cabezas de "
        f"claves y valores. Elige un divisor de {num_heads}: {_listed(_divisors(num_heads))} "
        f"(1 es MQA, {num_heads} es MHA)."
    )


def _check_query_key_value(query: Tensor, key: Tensor, value: Tensor) -> None:
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        _check_tensor(name, tensor)
        if not _is_real(tensor):
            raise ValueError(
                f"Se esperaba {name} de números con decimales y llegó {tensor.dtype}. "
                "Lo habitual: pasar identificadores de tokens sin su embedding, o 8 bits; conviértelo con .float()."
            )
    came = ", ".join(f"{name} {_shape(tensor)}" for name, tensor in tensors.items())
    if query.ndim < 2 or query.ndim != key.ndim or key.ndim != value.ndim:
        raise ValueError(
            "Se esperaban query (..., n_q, d_k), key (..., n_k, d_k) y value (..., n_k, d_v) con el mismo número de "
            f"dimensiones, dos o más, y llegaron {came}. Lo habitual: dividir en cabezas solo alguno de los tres."
        )
    if (
        len({tensor.dtype for tensor in tensors.values()}) > 1
        or len({tensor.device for tensor in tensors.values()}) > 1
    ):
        kinds = ", ".join(f"{name} {tensor.dtype} en {tensor.device}" for name, tensor in tensors.items())
        raise ValueError(
            f"Se esperaban los tres del mismo tipo y en el mismo dispositivo, y llegaron {kinds}. "
            "Lo habitual: mezclar float32 y float64 (NumPy), o dejar uno en la CPU; usa .to(query)."
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"Se esperaban query y key con la misma última dimensión d_k, y llegaron {came}. "
            "Lo habitual: traspones key (de eso se encarga la función) o las proyectas a tamaños distintos."
        )
    if query.shape[-1] == 0:
        raise ValueError(f"Se esperaba d_k ≥ 1 y llegaron {came}. Lo habitual: un corte de columnas vacío.")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"Se esperaba un valor por clave (el mismo n_k), y llegaron {came}. "
            "Lo habitual: key y value salen de secuencias distintas."
        )
    if key.shape[-2] == 0:
        raise ValueError(
            f"Se esperaba al menos una clave y llegaron {came}. Lo habitual: un contexto o una caché vacíos."
        )
    if key.shape[:-2] != value.shape[:-2]:
        raise ValueError(
            f"Se esperaban key y value con las mismas dimensiones de lote y de cabezas, y llegaron {came}. "
            "Lo habitual: dividir cada uno en un número de cabezas distinto."
        )
    if query.shape[:-2] != key.shape[:-2]:
        if query.ndim != 4 or query.shape[0] != key.shape[0]:
            raise ValueError(
                f"Se esperaban las mismas dimensiones de lote (solo con (batch, h, n, d_k) puede haber menos cabezas "
                f"de claves), y llegaron {came}. Lo habitual: falta una dimensión, o están en otro orden."
            )
        if key.shape[1] == 0 or query.shape[1] % key.shape[1]:
            raise ValueError(_uneven_groups(query.shape[1], key.shape[1]) + f" Llegaron {came}.")


def _check_mask(
    mask: Tensor,
    batch: int | None,
    num_heads: int | None,
    n_q: int,
    n_k: int,
    device: torch.device,
    cached: int = 0,
) -> None:
    """Comprueba una máscara; `batch` es None si la consulta no es (batch, h, n_q, d_k)."""
    _check_tensor("mask", mask)
    if mask.dtype != torch.bool:
        raise ValueError(
            f"Se esperaba mask booleana (True = puede atender) y llegó {mask.dtype}. Lo habitual: la máscara del "
            "tokenizador (1 = token real): usa mask.bool(); o una máscara que se suma (0 y −inf): usa mask == 0."
        )
    if mask.device != device:
        raise ValueError(
            f"Se esperaba mask en {device}, con las consultas, y llegó en {mask.device}. Usa mask.to({str(device)!r})."
        )
    options = f"(n_q, n_k) = ({n_q}, {n_k})"
    fits = mask.shape == (n_q, n_k)
    if batch is not None:
        options += (
            f", (batch, 1, n_q, n_k), (batch, 1, 1, n_k) o (batch, h, n_q, n_k) = ({batch}, {num_heads}, {n_q}, {n_k})"
        )
        fits = fits or (
            mask.ndim == 4
            and mask.shape[0] in (1, batch)
            and mask.shape[1] in (1, num_heads)
            and mask.shape[2] in (1, n_q)
            and mask.shape[3] == n_k
        )
    if fits:
        return
    if mask.ndim == 3:
        cause = (
            "con tres dimensiones no se sabe si la primera es batch o h: añade la otra, mask[:, None] si es "
            "(batch, n_q, n_k) o mask[None] si es (h, n_q, n_k)"
        )
    elif mask.ndim == 2 and mask.shape == (batch, n_k):
        cause = "parece la máscara de relleno del tokenizador, (batch, n_k): usa mask[:, None, None, :]"
    elif cached:
        cause = f"con caché, n_k cuenta las {cached} claves anteriores además de las {n_q} nuevas"
    elif mask.ndim == 4 and batch is None:
        cause = "una máscara de cuatro dimensiones pide consultas (batch, h, n_q, d_k): divide antes en cabezas"
    elif mask.ndim >= 2 and n_q != n_k and mask.shape[-2:] == (n_k, n_q):
        cause = "está traspuesta: las filas son consultas y las columnas, claves"
    else:
        cause = "lo habitual es haberla hecho para otra longitud"
    raise ValueError(f"Se esperaba mask de forma {options} y llegó {_shape(mask)}: {cause}.")
