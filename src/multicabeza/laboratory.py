"""El laboratorio: un transformer de dos capas que funciona en la página, y se puede escribir, apagar y rebobinar.

Es el modelo de `toys/induction.py`, con los pesos de sus puntos de control. Las cuentas las hace `web/tensor.js`; lo
demás, `web/lab.js`. El último punto de control va dentro de la página. Los otros, en el libro, en archivos aparte que
se piden al mover el control (`weight_files`); en un cuaderno, dentro de la salida.
"""

import base64
import html
import math
import unicodedata
import zlib
from collections.abc import Mapping, Sequence

import torch
from IPython.display import HTML
from torch import Tensor

from multicabeza import plots, views
from multicabeza.toys import induction
from multicabeza.toys.records import load_record

# Las palabras con que se leen los 64 tokens del modelo, que se entrenó con números: cuál le toca a cuál da igual.
WORDS = (
    "abeja", "agua", "árbol", "arena", "barco", "bici", "boca", "burro", "café", "caja", "calle", "campo", "carta",
    "casa", "cielo", "dado", "fuego", "gato", "hoja", "huevo", "isla", "jarra", "lago", "lápiz", "león", "libro",
    "limón", "llave", "lluvia", "lobo", "luna", "mano", "mapa", "mar", "mesa", "miel", "mono", "monte", "nieve",
    "nube", "oso", "oveja", "pan", "pato", "perro", "pez", "piano", "piedra", "pino", "puente", "queso", "rana",
    "reloj", "río", "rosa", "rueda", "silla", "sol", "tierra", "torre", "tren", "uva", "vaca", "viento",
)  # fmt: skip

FIRST = ("gato", "perro", "sol", "luna", "mapa", "nube", "pez", "casa")
# Ejemplos: una secuencia, o cuántas palabras al azar y cuántas vueltas. Tras la última vuelta empieza otra.
EXAMPLES = (
    ("Ocho, dos vueltas", [*FIRST, *FIRST, FIRST[0]]),
    ("Otras ocho", (8, 2)),
    ("Dieciséis, tres vueltas", (16, 3)),
    ("Cuatro, dos vueltas", [*FIRST[:4] * 2, FIRST[0]]),
    ("Sin repetir", (24, 1)),
)
LAST = induction.CHECKPOINT_STEPS[-1]

# Qué probar: el estado en que se pone el laboratorio, qué se hace y en qué hay que fijarse.
TRIES = (
    (
        {},
        "Mira cómo completa una repetición",
        "Ocho palabras, dos vueltas y, otra vez, la primera. ¿Qué sigue? El modelo no ha visto nunca esta secuencia: "
        "busca dónde salió antes la última palabra y copia la que vino detrás. Con «Añadir la que predice», la vuelta "
        "se escribe sola.",
    ),
    (
        {"off": ["0.1"]},
        "Apaga la cabeza 0.1",
        "Es la que más mira a la palabra anterior. Sin ella la predicción se hunde, y las cuatro de la capa 1, que no "
        "has tocado, dejan de mirar donde miraban: leían lo que 0.1 apuntaba.",
    ),
    (
        {"off": ["0.3"]},
        "El control: apaga otra, la 0.3",
        "La predicción sigue igual. Sin este control, lo de antes podría ser el efecto de quitar una cabeza, la que "
        "fuera.",
    ),
    (
        {"off": ["1.2"]},
        "Apaga una de la capa 1",
        "La predicción baja, pero aguanta: las otras tres siguen mirando a la palabra que hay que copiar. Apágalas de "
        "una en una hasta que caiga. ¿Alguna estorba?",
    ),
    (
        {"step": 600},
        "Rebobina el entrenamiento",
        "En el paso 600 ya asoman las diagonales de las dos capas y, sin embargo, la predicción aún no sale. Muévete "
        "entre 400 y 1000: los mapas se afilan en unos cientos de pasos, y a la vez se desploma la pérdida del examen.",
    ),
    (
        {"example": 4},
        "Dale algo que no se repite",
        "No hay nada que copiar, y la pérdida no baja de la de elegir a ciegas, 4,16 nats. Suele quedar por encima: el "
        "modelo espera repeticiones también donde no las hay.",
    ),
    (
        {"example": 3},
        "Búscale el fallo",
        "Se entrenó con vueltas de 8 a 32 palabras. Con vueltas de cuatro, dos no le bastan para fiarse. Sigue "
        "escribiendo la secuencia: ¿cuántas necesita?",
    ),
)


def plain(word: str) -> str:
    """La palabra en minúsculas y sin tildes, como se compara lo que se escribe."""
    letters = unicodedata.normalize("NFD", word.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def pack(tensors: Mapping[str, Tensor]) -> str:
    """Escribe en un texto los números de unos tensores float16, sin perder ninguno.

    Los bytes altos van delante de los bajos, y todo se comprime: son menos de 100 KB de texto. Lo lee
    `mcTensor.unpack`.

    Args:
        tensors: nombre → tensor cuyos números caben en float16.

    Returns:
        Letras sin «<», «>», «&», comillas ni barras.

    Raises:
        ValueError: si algún número no cabe en float16.
    """
    numbers = torch.cat([tensor.detach().flatten() for tensor in tensors.values()])
    short = numbers.half()
    if not torch.equal(short.float(), numbers.float()):
        raise ValueError(
            "Se esperaban números que caben en float16 y alguno perdería cifras: la página no tendría el mismo modelo. "
            "Lo habitual: pesos recién entrenados; redondéalos antes con .half()."
        )
    raw = short.numpy().astype("<f2").tobytes()
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_FILTERED)
    packed = squeeze.compress(raw[1::2] + raw[::2]) + squeeze.flush()
    return base64.b85encode(packed).decode().translate(str.maketrans("<>&", ",.:"))


def weight_files() -> dict[str, str]:
    """Los puntos de control que la página pide aparte: nombre del archivo dentro de `_static` → programa que los trae.

    Son programas, y no datos, para que se puedan cargar también con el libro abierto como archivo.
    """
    return {
        f"lab-{step:04d}.js": f'(window.mcLabWeights ??= {{}})[{step}] = "{_packed(step)}";\n'
        for step in induction.CHECKPOINT_STEPS
        if step != LAST
    }


def _tensors(step: int) -> dict[str, Tensor]:
    """Los pesos de un paso, por orden de nombre: así quedan juntos los que se parecen, y se comprimen mejor."""
    return dict(sorted(induction.load_checkpoint(step).state_dict().items()))


def _packed(step: int) -> str:
    return pack(_tensors(step))


def lab() -> None:
    """Un transformer de dos capas dentro de la página: se escribe una secuencia y se ve qué mira y qué predice.

    Se apagan cabezas, se elige la palabra desde la que se mira y se recorre el entrenamiento. Todo se calcula en el
    navegador, sin servidor. Vale con el dedo, con el ratón y con el teclado. Sin JavaScript y en papel quedan una
    figura y lo que habría que probar.
    """
    model, sequence = induction.load_checkpoint(LAST), EXAMPLES[0][1]
    with torch.no_grad():
        logits, weights = model(torch.tensor([[WORDS.index(word) for word in sequence]]), need_weights=True)
    likely, best = logits[0, -1].softmax(-1).max(-1)
    words = (
        f"Con «{' '.join(sequence)}», el modelo predice «{WORDS[int(best)]}» "
        f"({plots.spanish_number(float(likely))}), la que siguió a «{sequence[-1]}» las otras veces."
    )
    alt = (
        f"Ocho mapas de {len(sequence)}×{len(sequence)} pesos, dos capas de cuatro cabezas. 0.1 y 0.2 tienen una "
        "diagonal: cada palabra mira a la anterior. Las cuatro de la capa 1, otra más abajo: cada una mira a la que "
        f"siguió a su repetición una vuelta antes. {words}"
    )
    steps, losses = induction.CHECKPOINT_STEPS, load_record("06_phase").values["checkpoints"]["float16"]
    data = {
        "words": WORDS,
        "plain": [plain(word) for word in WORDS],
        "length": induction.LENGTH,
        "colors": plots.HEAD_COLORS[: induction.NUM_HEADS],
        "examples": [example for _, example in EXAMPLES],
        "steps": steps,
        "losses": losses,
        "shapes": {name: list(weight.shape) for name, weight in _tensors(LAST).items()},
        "weights": {step: _packed(step) for step in ((LAST,) if views.in_book() else steps)},
    }
    style, script = assets("lab")
    block = views._identifier("lab", words)
    views.display(
        HTML(
            f'<figure class="mc-lab mc-tensor mc-fig" id="{block}" aria-labelledby="{block}-t">{style}'
            f'<p class="mc-title" id="{block}-t">Un transformer de dos capas, en esta página</p>'
            f"{_tries()}{_panel(block, steps, losses)}"
            f'<div class="mc-lab-still">{views._img(*views._png(plots.head_grid(weights[:, 0])), alt)}'
            f'<p class="mc-small">Los mapas de las ocho cabezas, una fila por capa. {html.escape(words)}</p>'
            "<noscript><p>Para escribir otra secuencia y apagar cabezas hace falta JavaScript.</p></noscript>"
            '<p class="failure" role="status"></p></div>'
            f'<script type="application/json">{views._script_json(data)}</script>{script}</figure>'
        )
    )


def assets(name: str) -> tuple[str, str]:
    """Estilo y guiones que la salida lleva consigo: como en `views`, nada en el libro.

    Args:
        name: el de su guion en `web/`, además de `tensor`.

    Returns:
        Dos elementos HTML, vacíos en el libro.
    """
    if views.in_book():
        return "", ""
    style, script = (
        "".join(views._web(name) for name in names)
        for names in (("base.css", "tensor.css", f"{name}.css", "jupyter.css"), ("tensor.js", f"{name}.js", "keys.js"))
    )
    return f"<style>{style}</style>", f"<script>{script}</script>"


def _tries() -> str:
    """Qué probar: una lista; con JavaScript, de uno en uno."""
    items = "".join(
        f"<li><p><strong>{html.escape(title)}.</strong> {html.escape(text)}</p>"
        f'<button type="button" hidden="hidden" data-try="{html.escape(views._script_json(state))}">Hazlo'
        f'<span class="mc-hidden"> ({html.escape(title)})</span></button></li>'
        for state, title, text in TRIES
    )
    return (
        '<div class="tries" role="group" aria-label="Qué probar"><p class="count">Qué probar<span></span></p>'
        f'<ol>{items}</ol><p class="turn" hidden="hidden"><button type="button" data-turn="-1" '
        'aria-label="Prueba anterior">←'
        '</button><button type="button" data-turn="1">Siguiente prueba →</button></p></div>'
    )


def _panel(block: str, steps: Sequence[int], losses: Sequence[float]) -> str:
    """Lo que el guion rellena: escribir, predicción, entrenamiento, mapas y la fila de una palabra."""
    examples = "".join(
        f'<button type="button" data-example="{k}">{html.escape(name)}</button>' for k, (name, _) in enumerate(EXAMPLES)
    )
    words = "".join(f'<button type="button" data-word="{k}">{word}</button>' for k, word in enumerate(WORDS))
    heads = [(layer, head) for layer in range(2) for head in range(induction.NUM_HEADS)]
    layers = "".join(
        f'<div class="layer" role="group" aria-label="Capa {layer}"><p aria-hidden="true">Capa {layer}</p>'
        f"{''.join(_unit(*pair) for pair in heads if pair[0] == layer)}</div>"
        for layer in range(2)
    )
    strips = "".join(
        f'<li class="strip" style="--head:{plots.HEAD_COLORS[head]}"><span class="name">{layer}.{head}</span>'
        '<canvas aria-hidden="true"></canvas><span class="best"></span></li>'
        for layer, head in heads
    )
    curve = "".join(f'<i style="--loss:{loss / max(losses):.3f}"></i>' for loss in losses)
    chance = plots.spanish_number(math.log(induction.VOCABULARY))
    return (
        f'<div class="panel" hidden="hidden"><div class="write"><label for="{block}-text">'
        "<strong>Tu secuencia</strong> "
        f'<span class="mc-small">hasta {induction.LENGTH} palabras, de las {len(WORDS)} que conoce</span></label>'
        f'<textarea id="{block}-text" rows="2" autocomplete="off" autocapitalize="none" spellcheck="false" '
        f'aria-describedby="{block}-m"></textarea><p class="now"></p>'
        f'<div class="message" id="{block}-m" hidden="hidden"></div>'
        '<div class="buttons"><button type="button" data-do="predicted">Añadir la que predice</button>'
        '<button type="button" data-do="back">Quitar la última</button>'
        '<button type="button" data-do="clear">Vaciar</button></div>'
        '<details><summary>Ejemplos y lista de palabras</summary><div class="examples" role="group" '
        f'aria-labelledby="{block}-x"><span id="{block}-x">Ejemplos:</span>{examples}</div>'
        f'<div class="words" role="group" aria-label="Lista de palabras">{words}</div></details></div>'
        '<div class="results"><div class="sentence" role="toolbar" '
        'aria-label="Secuencia: elige la palabra desde la que se mira"></div>'
        '<p class="mc-small">Debajo de cada palabra, su pérdida: 0 si el modelo la esperaba del todo. Elige una para '
        "ver qué mira y qué predice desde ahí.</p>"
        f'<div class="two"><div><div class="after" role="group" aria-labelledby="{block}-n"><p class="part" '
        f'id="{block}-n"></p><ol class="candidates"></ol><p class="mc-small rest"></p></div>'
        f'<div class="training" role="group" aria-labelledby="{block}-e"><p class="part" id="{block}-e">Entrenamiento: '
        f'<output for="{block}-s" aria-live="off"></output></p><div class="curve" aria-hidden="true">{curve}</div>'
        f'<input type="range" id="{block}-s" min="0" max="{len(steps) - 1}" step="1" value="{len(steps) - 1}" '
        'autocomplete="off" aria-label="Paso del entrenamiento"><p class="mc-small exam"></p><p class="trouble"></p>'
        '<button type="button" data-do="play">Ver el entrenamiento</button></div></div>'
        f'<div class="heads" role="group" aria-labelledby="{block}-h"><p class="part" id="{block}-h">Las ocho cabezas'
        f'</p>{layers}<p class="mc-small">Cada botón apaga o enciende una. Fila: quién mira; columna, a quién. Debajo, '
        "de media, cuánto peso va a la palabra anterior (capa 0) o a las que siguieron a la misma antes (capa 1).</p>"
        '<button type="button" data-do="all">Encender todas</button></div></div>'
        f'<div class="looks" role="group" aria-labelledby="{block}-l"><p class="part" id="{block}-l"></p>'
        f'<ol><li class="labels" aria-hidden="true"><span></span><div class="columns"></div></li>{strips}'
        '<li class="losses" aria-hidden="true"><span class="name">pérdida</span><div class="columns bars"></div>'
        f'<span class="best">raya: a ciegas, {chance}</span></li></ol><p class="mean"></p></div></div>'
        '<p class="mc-live" aria-live="polite"></p></div>'
    )


def _unit(layer: int, head: int) -> str:
    """El mapa de una cabeza, con su interruptor y su índice."""
    return (
        f'<div class="unit" style="--head:{plots.HEAD_COLORS[head]}"><div class="map"><canvas role="img"></canvas>'
        f'<i></i><span aria-hidden="true">apagada</span></div><button type="button" data-head="{layer}.{head}" '
        f'aria-pressed="true"><span class="mc-hidden">Cabeza </span><b>{layer}.{head}</b><span class="mc-hidden"> '
        f'encendida</span><i aria-hidden="true"></i></button><p>{"prefijo" if layer else "anterior"} <b></b></p></div>'
    )
