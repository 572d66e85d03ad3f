"""¿Explica la atención lo que hace el modelo? Lo que pesa cada token frente a lo que cambia al quitarlo (capítulo 05).

Con MiniLM y cien frases corrientes: si las palabras más atendidas son aquellas sin las que la frase queda distinta, y
cuánto cambia la frase si los pesos se barajan o los valores se tocan. Y los sumideros de SmolLM2.

Fuentes: Jain y Wallace (2019) y Wiegreffe y Pinter (2019), que estudian redes recurrentes con una sola capa de
atención; Kobayashi et al. (2020) para las normas.

Letras de las formas: W palabras de la frase, n tokens, h cabezas, B ejemplos.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import merge_heads, split_heads
from ..heads import output_matrix, sink_score, value_weighted_norm
from ..models import LoadedModel, load_bert, load_smollm2

# Cien frases corrientes, escritas para este experimento. Se usan en cinco grupos de veinte, en este orden.
SENTENCES = (
    "The old fisherman mended his nets while the tide came in.",
    "A cold wind blew across the empty square.",
    "My sister bought three green apples and a loaf of bread.",
    "Nobody expected the small team to win the final.",
    "The committee rejected the proposal because it was too expensive.",
    "When the lights went out, the children stopped singing.",
    "The museum opens at nine, but the garden opens earlier.",
    "Her grandfather taught her how to repair clocks.",
    "Two engineers inspected the bridge after the storm.",
    "The river that crosses the valley freezes every winter.",
    "He forgot his umbrella on the train to Paris.",
    "Fresh bread smells better than any perfume.",
    "The doctor who treated the boy works at another hospital now.",
    "Scientists found water under the surface of the moon.",
    "We usually have dinner late in the summer.",
    "The letter arrived two weeks after the wedding.",
    "If you heat the metal slowly, it will not break.",
    "The nervous student answered every question correctly.",
    "Wild horses ran along the beach at dawn.",
    "The company sold its oldest factory to a foreign bank.",
    "A young violinist played alone in the crowded station.",
    "The price of coffee has doubled since last year.",
    "They painted the kitchen yellow and the hall blue.",
    "The witness could not remember the face of the thief.",
    "Farmers in the north are waiting for rain.",
    "The cat that chased the mouse fell into the pond.",
    "She writes short stories about life in small villages.",
    "The captain ordered his men to lower the sails.",
    "Bees disappear when the fields are full of poison.",
    "The teacher gave the twins different homework.",
    "An enormous truck blocked the narrow road for hours.",
    "His first novel was a complete failure.",
    "The nurse washed her hands before touching the baby.",
    "Most tourists never visit the eastern side of the island.",
    "The judge listened to both lawyers without saying a word.",
    "My neighbour keeps a parrot that speaks Portuguese.",
    "Snow covered the roofs and silenced the streets.",
    "The baker gets up at three in the morning.",
    "Our flight was cancelled because of the fog.",
    "The queen refused to sign the treaty.",
    "Several families left the city during the war.",
    "The broken window let the rain into the library.",
    "He sold his car to pay for the operation.",
    "Astronomers discovered a planet without any atmosphere.",
    "The dog buried the bone behind the church.",
    "Old maps show a road that no longer exists.",
    "The orchestra tuned its instruments while the audience waited.",
    "A single match can burn an entire forest.",
    "The senator promised lower taxes for small shops.",
    "Grandmother always put too much salt in the soup.",
    "The mechanic replaced the brakes and cleaned the engine.",
    "Few people understand how vaccines are made.",
    "The waiter brought the wrong dish to our table.",
    "Children learn languages faster than adults.",
    "The mayor opened the new library on Monday.",
    "A strange noise came from the cellar.",
    "The shepherd counted his sheep before sunset.",
    "She lost her ring while swimming in the lake.",
    "The factory stopped using coal ten years ago.",
    "They named the ship after a forgotten queen.",
    "The gardener planted roses where the old wall stood.",
    "Heavy rain ruined the harvest in the south.",
    "The detective noticed mud on the carpet.",
    "My brother plays chess with a retired professor.",
    "The population of the town fell by half.",
    "Students who sleep well remember more.",
    "The tailor sewed a red button on the black coat.",
    "Whales sing to each other across the ocean.",
    "The bank closed its branch in our street.",
    "He drank his coffee without sugar and left.",
    "The expedition reached the summit in terrible weather.",
    "Her voice trembled when she read the verdict.",
    "The old theatre was turned into a supermarket.",
    "Ants carry leaves much heavier than themselves.",
    "The minister denied that he had received any money.",
    "A blue lamp stood on the wooden desk.",
    "The carpenter measured the door twice.",
    "Thousands of birds cross the strait in October.",
    "The tenant complained about the noise upstairs.",
    "Cheap watches rarely last more than a year.",
    "The pilot landed the damaged plane on a frozen lake.",
    "Everyone laughed except the man in the grey suit.",
    "The recipe calls for two eggs and a cup of milk.",
    "Archaeologists uncovered a Roman villa under the car park.",
    "The librarian whispered the name of the author.",
    "Our cousins moved to Canada in the spring.",
    "The machine sorts letters by size and colour.",
    "Lightning struck the tower during the concert.",
    "The prisoner wrote a letter to his daughter every week.",
    "Good translators are hard to find.",
    "The fox waited until the hens fell asleep.",
    "A tired nurse closed the curtains of the ward.",
    "The referee ended the match because of the heat.",
    "Nothing grows on the northern slope of the volcano.",
    "The actress thanked her parents and burst into tears.",
    "Small mistakes can cause very large accidents.",
    "The plumber found a gold coin in the pipe.",
    "They postponed the meeting until the end of the month.",
    "The moon looked enormous above the quiet harbour.",
    "Her uncle repairs bicycles in a tiny workshop.",
)
SET_SIZE = 20

# Palabras que sostienen la frase sin nombrar nada; las demás son «de contenido».
FUNCTION_WORDS = frozenset(
    "a an the and or but if when while because that who which where what how before after until since than as "
    "of to in on at by with without from for into over under behind above near across during of up "
    "i he she it they we you him her his its their our my them us me this these those all each other both any "
    "is are was were be been had has have do does did will would can could may not no never more most very too "
    "so such every few several nobody nothing everyone themselves ago now later".split()
)


def sentence_set(number: int) -> tuple[str, ...]:
    """Un grupo de veinte frases.

    Args:
        number: de 0 a 4.

    Returns:
        Veinte frases; los grupos no comparten ninguna.

    Raises:
        ValueError: si no hay tal grupo.
    """
    if not 0 <= number < len(SENTENCES) // SET_SIZE:
        raise ValueError(f"Hay {len(SENTENCES) // SET_SIZE} grupos de frases, desde 0, y se pidió el {number}.")
    return SENTENCES[number * SET_SIZE : (number + 1) * SET_SIZE]


# --- Mirar -----------------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """Lo que se ve al pasar una frase por un codificador.

    Attributes:
        tokens: n textos.
        words: W textos, signos de puntuación incluidos.
        ids: identificadores (n,).
        member: (W, n), 1 si el token es de la palabra; [CLS] y [SEP] no son de ninguna.
        weights: pesos de atención (n_layers, h, n, n).
        norms: tamaño de lo que cada clave aporta a cada consulta (n_layers, h, n, n).
        embedding: vector de la frase (d_model,), la media de los vectores finales de sus tokens.
    """

    tokens: list[str]
    words: list[str]
    ids: Tensor
    member: Tensor
    weights: Tensor
    norms: Tensor
    embedding: Tensor


def look(bert: LoadedModel, sentence: str) -> Look:
    """Pasa una frase y anota pesos, normas y el vector de la frase.

    Args:
        bert: lo que devuelve `load_bert`.
        sentence: una frase.

    Returns:
        `Look`.
    """
    encoding = bert.tokenizer(sentence, return_tensors="pt")
    with torch.no_grad():
        output = bert.model(**encoding, output_attentions=True, output_hidden_states=True)
        weights = torch.cat(output.attentions)  # (n_layers, h, n, n)
        norms = []
        for number, layer in enumerate(bert.model.encoder.layer):
            values = layer.attention.self.value(output.hidden_states[number])  # (1, n, d_model)
            values = split_heads(values, weights.shape[1])[0]  # (h, n, d_k)
            norms.append(value_weighted_norm(weights[number], values, output_matrix(bert, number)))
    ids, word_ids = encoding["input_ids"][0], encoding.word_ids()
    words = [sentence[slice(*encoding.word_to_chars(i))] for i in range(max(w for w in word_ids if w is not None) + 1)]
    member = torch.tensor([[word == i for word in word_ids] for i in range(len(words))]).float()
    tokens = bert.tokenizer.convert_ids_to_tokens(ids.tolist())
    return Look(tokens, words, ids, member, weights, torch.stack(norms), output.last_hidden_state[0].mean(0))


class OpenHead(NamedTuple):
    """Una cabeza por dentro, en una frase.

    Attributes:
        query: consultas (n, d_k).
        key: claves menos la clave media, (n, d_k). La softmax no nota la diferencia: a todas las claves de una consulta
            les quita lo mismo, q · media.
        weights: pesos (n, n), softmax de query @ key.T / √d_k.
    """

    query: Tensor
    key: Tensor
    weights: Tensor


def open_head(bert: LoadedModel, layer: int, head: int, sentence: str) -> OpenHead:
    """Saca las consultas, las claves y los pesos de una cabeza en una frase.

    Args:
        bert: lo que devuelve `load_bert`.
        layer: la capa, desde 0.
        head: la cabeza, desde 0.
        sentence: la frase.

    Returns:
        `OpenHead`.
    """
    with torch.no_grad():
        output = bert.model(
            **bert.tokenizer(sentence, return_tensors="pt"), output_hidden_states=True, output_attentions=True
        )
        part, x = bert.model.encoder.layer[layer].attention.self, output.hidden_states[layer]
        query, key = (
            split_heads(projection(x), part.num_attention_heads)[0, head] for projection in (part.query, part.key)
        )
    return OpenHead(query, key - key.mean(0), output.attentions[layer][0, head])


def embed(bert: LoadedModel, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """El vector de cada frase de un lote: la media de los vectores finales de sus tokens, como al entrenar MiniLM.

    Args:
        bert: lo que devuelve `load_bert`.
        ids: identificadores (B, n).
        mask: (B, n), 1 = token y 0 = relleno; si falta, no hay relleno.

    Returns:
        Tensor (B, d_model).
    """
    mask = torch.ones_like(ids) if mask is None else mask
    with torch.no_grad():
        hidden = bert.model(input_ids=ids, attention_mask=mask).last_hidden_state
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def distance(first: Tensor, second: Tensor) -> Tensor:
    """Distancia coseno, 1 − cos: 0 si apuntan a lo mismo, 1 si no tienen nada en común.

    Args:
        first: (..., d_model).
        second: (..., d_model).

    Returns:
        Tensor (...,).
    """
    return 1 - F.cosine_similarity(first, second, dim=-1)


# --- Quitar palabras -------------------------------------------------------------------------------------------------


def leave_one_out(bert: LoadedModel, seen: Look) -> Tensor:
    """Cuánto cambia el vector de la frase al quitar cada palabra: 1 − cos entre la frase entera y la que queda.

    Args:
        bert: lo que devuelve `load_bert`.
        seen: lo que devuelve `look` con esa frase.

    Returns:
        Tensor (W,), ≥ 0.
    """
    rows = [seen.ids[member == 0] for member in seen.member]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    mask = nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    return distance(embed(bert, ids, mask), seen.embedding)


def received(maps: Tensor, member: Tensor) -> Tensor:
    """Lo que recibe cada palabra, sumado sobre las consultas y sobre sus trozos.

    Args:
        maps: pesos o normas (..., n, n).
        member: (W, n), de `Look`.

    Returns:
        Tensor (..., W).
    """
    return maps.sum(dim=-2) @ member.T


def ranks(x: Tensor) -> Tensor:
    """El puesto de cada número, desde 1; los empates comparten la media de sus puestos.

    Args:
        x: (..., n).

    Returns:
        Tensor (..., n).
    """
    below = (x[..., None, :] < x[..., :, None]).sum(-1)
    tied = (x[..., None, :] == x[..., :, None]).sum(-1)
    return below + (tied + 1) / 2


def rank_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Correlación de Spearman: la de Pearson entre los puestos. 1, el mismo orden; −1, el contrario; 0, ninguno.

    Args:
        x: (..., n).
        y: (..., n).

    Returns:
        Tensor (...,); NaN si una de las dos es constante.
    """
    x, y = (ranks(side) - (side.shape[-1] + 1) / 2 for side in (x, y))
    return (x * y).sum(-1) / (x.pow(2).sum(-1) * y.pow(2).sum(-1)).sqrt()


def candidates(seen: Look, generator: torch.Generator) -> dict[str, Tensor]:
    """Maneras de puntuar las palabras de una frase, para compararlas con lo que pasa al quitarlas.

    Las dos últimas no miran la atención y son el control: la rareza es el identificador del token (en un vocabulario
    WordPiece crece, más o menos, con la rareza) y el azar, un sorteo.

    Args:
        seen: lo que devuelve `look`.
        generator: para el sorteo.

    Returns:
        Nombre → (W,).
    """
    weights, norms = received(seen.weights, seen.member), received(seen.norms, seen.member)  # (n_layers, h, W)
    return {
        "weights": weights.mean((0, 1)),
        "weights_first": weights[0].mean(0),
        "weights_last": weights[-1].mean(0),
        "norms": norms.mean((0, 1)),
        "rarity": (seen.member * seen.ids).amax(-1),
        "chance": torch.rand(len(seen.words), generator=generator),
    }


def agreement(bert: LoadedModel, sentences: Sequence[str], seed: int = 0) -> dict[str, Tensor]:
    """Correlación, dentro de cada frase, entre lo que dicen los mapas y lo que cambia al quitar cada palabra.

    Args:
        bert: lo que devuelve `load_bert`.
        sentences: N frases.
        seed: fija el sorteo del control.

    Returns:
        Nombre → correlaciones de Spearman (N,), con todas las palabras; los de `candidates`, y «heads», (N, n_layers,
        h), con cada cabeza por su lado. Con «_content» detrás del nombre, lo mismo entre las palabras de contenido.
    """
    generator, rows = torch.Generator().manual_seed(seed), {}
    for sentence in sentences:
        seen = look(bert, sentence)
        effect = leave_one_out(bert, seen)
        content = torch.tensor([word.isalpha() and word.lower() not in FUNCTION_WORDS for word in seen.words])
        scores = {**candidates(seen, generator), "heads": received(seen.weights, seen.member)}
        for name, score in scores.items():
            rows.setdefault(name, []).append(rank_correlation(score, effect))
            rows.setdefault(f"{name}_content", []).append(rank_correlation(score[..., content], effect[content]))
    return {name: torch.stack(values) for name, values in rows.items()}


# --- Tocar los valores -----------------------------------------------------------------------------------------------


@contextmanager
def edited_values(bert: LoadedModel, edit: Callable[[int, Tensor], Tensor]) -> Iterator[None]:
    """Mientras dura el bloque, los valores de cada capa pasan por `edit` antes de que los pesos los promedien.

    Los pesos no se tocan, y sin embargo esto sirve para moverlos: dar a la clave j el valor de la clave k es lo mismo
    que llevar a k el peso de j.

    Args:
        bert: lo que devuelve `load_bert`.
        edit: (capa, valores (B, h, n, d_k)) → valores de la misma forma.

    Yields:
        Nada.
    """
    num_heads = bert.model.config.num_attention_heads

    def hook(number: int) -> Callable:
        return lambda _module, _inputs, output: merge_heads(edit(number, split_heads(output, num_heads)))

    with ExitStack() as stack:
        for number, layer in enumerate(bert.model.encoder.layer):
            stack.enter_context(layer.attention.self.value.register_forward_hook(hook(number)))
        yield


def replaced(which: Tensor, place: Tensor, source: Tensor | None = None) -> Callable[[int, Tensor], Tensor]:
    """Un `edit` para `edited_values`: en algunas cabezas, el valor de un token se borra o se cambia por el de otro.

    Args:
        which: bool (n_layers, h), las cabezas.
        place: (n_layers, h), el token cuyo valor se cambia en cada una.
        source: (n_layers, h), el token cuyo valor ocupa su lugar; si falta, cero.

    Returns:
        Una función (capa, valores) → valores.
    """

    def edit(layer: int, values: Tensor) -> Tensor:
        values = values.clone()  # (B, h, n, d_k)
        for head in which[layer].nonzero()[:, 0].tolist():
            new = 0 if source is None else values[:, head, source[layer, head]]
            values[:, head, place[layer, head]] = new
        return values

    return edit


def shuffled(bert: LoadedModel, ids: Tensor, which: Tensor, generator: torch.Generator) -> Tensor:
    """Vectores de una frase con los pesos de algunas cabezas barajados entre los tokens.

    Cada cabeza señalada recibe una permutación de las claves, la misma en todas sus consultas: los pesos son los
    mismos números, repartidos entre otros tokens.

    Args:
        bert: lo que devuelve `load_bert`.
        ids: identificadores (n,).
        which: bool (B, n_layers, h); B maneras de elegir cabezas.
        generator: para las permutaciones.

    Returns:
        Tensor (B, d_model).
    """
    n = len(ids)

    def edit(layer: int, values: Tensor) -> Tensor:
        order = torch.rand(*values.shape[:2], n, generator=generator).argsort(-1)  # (B, h, n)
        order = torch.where(which[:, layer, :, None], order, torch.arange(n))
        return values.gather(2, order[..., None].expand_as(values))

    with edited_values(bert, edit):
        return embed(bert, ids.expand(len(which), n))


def shuffle_effects(bert: LoadedModel, sentences: Sequence[str], seed: int = 0) -> dict[str, Tensor]:
    """Cuánto cambia el vector de la frase al barajar los pesos de una cabeza, de una capa o de todas.

    Args:
        bert: lo que devuelve `load_bert`.
        sentences: N frases.
        seed: fija las permutaciones.

    Returns:
        «head» (N, n_layers, h), «layer» (N, n_layers) y «all» (N,), más dos referencias: «word», lo que cambia al
        quitar una palabra, en media (N,), y «other», la distancia a la frase siguiente (N,).
    """
    generator = torch.Generator().manual_seed(seed)
    n_layers, h = bert.model.config.num_hidden_layers, bert.model.config.num_attention_heads
    one = torch.eye(n_layers * h, dtype=torch.bool).view(-1, n_layers, h)
    layer = torch.eye(n_layers, dtype=torch.bool)[..., None].expand(-1, -1, h)
    which = torch.cat([one, layer, torch.ones(1, n_layers, h, dtype=torch.bool)])
    rows: dict[str, list] = {name: [] for name in ("head", "layer", "all", "word", "embedding")}
    for sentence in sentences:
        seen = look(bert, sentence)
        moved = distance(shuffled(bert, seen.ids, which, generator), seen.embedding)
        rows["head"].append(moved[: n_layers * h].view(n_layers, h))
        rows["layer"].append(moved[n_layers * h : -1])
        rows["all"].append(moved[-1])
        rows["word"].append(leave_one_out(bert, seen).mean())
        rows["embedding"].append(seen.embedding)
    result = {name: torch.stack(values) for name, values in rows.items()}
    embedding = result.pop("embedding")
    return {**result, "other": distance(embedding, embedding.roll(-1, dims=0))}


# --- Sumideros -------------------------------------------------------------------------------------------------------


def norm_shares(norms: Tensor) -> Tensor:
    """Qué parte de lo que recibe cada consulta pone cada clave: normas que suman 1 por filas, como los pesos.

    Es un reparto de tamaños, no de la salida: al sumar, unos vectores tapan o refuerzan a otros.

    Args:
        norms: (..., n, n), de `value_weighted_norm`.

    Returns:
        Tensor (..., n, n).
    """
    return norms / norms.sum(-1, keepdim=True)


def causal_sinks(smollm: LoadedModel, text: str) -> dict[str, Tensor]:
    """Índices de sumidero de un decodificador LLaMA en un texto.

    Args:
        smollm: lo que devuelve `load_smollm2`.
        text: el texto.

    Returns:
        Tres tensores (n_layers, h): «first», peso en el primer token; «second», en el segundo, que sirve de control;
        «first_norm», la parte de la norma que le toca al primero.
    """
    values: dict[int, Tensor] = {}

    def note(number: int) -> Callable:
        return lambda _module, _inputs, output: values.update({number: output})

    config, layers = smollm.model.config, smollm.model.model.layers
    with ExitStack() as stack:
        for number, layer in enumerate(layers):
            stack.enter_context(layer.self_attn.v_proj.register_forward_hook(note(number)))
        _, weights = smollm.attend(text)  # (n_layers, h, n, n)
    norms = [
        value_weighted_norm(
            weights[number],
            split_heads(values[number], config.num_key_value_heads)[0],
            output_matrix(smollm, number),
        )
        for number in range(len(layers))
    ]
    return {
        "first": sink_score(weights),
        "second": sink_score(weights, 1),
        "first_norm": sink_score(norm_shares(torch.stack(norms))),
    }


# --- El registro -----------------------------------------------------------------------------------------------------


def record(seeds: list[int]) -> dict:
    """Las medidas de cada grupo de frases; la semilla i usa el grupo i − seeds[0] y fija sus sorteos."""
    bert, smollm = load_bert(), load_smollm2()
    values: dict = {"sentences": SET_SIZE, "agreement": {}, "shuffle": {}, "smollm2": {}}
    for seed in seeds:
        sentences = sentence_set(seed - seeds[0])
        measured = {
            "agreement": agreement(bert, sentences, seed),
            "shuffle": shuffle_effects(bert, sentences, seed),
            "smollm2": {name: x[None] for name, x in causal_sinks(smollm, " ".join(sentences[:4])).items()},
        }
        for part, results in measured.items():
            for name, x in results.items():
                values[part].setdefault(name, []).append(_rounded(x.mean(0).tolist()))  # la media de las frases
    return values


def _rounded(x: float | list) -> float | list:
    return [_rounded(item) for item in x] if isinstance(x, list) else round(x, 4)
