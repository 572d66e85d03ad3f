"""SmolLM2 con una ventana deslizante, con y sin sumideros: qué pierde al leer y qué deja de encontrar (capítulo 09).

El archivo se lee de arriba abajo: los textos, las máscaras que se comparan, la pérdida con cada una, el modelo con
nuestra capa y nuestra caché (que no crece) y la búsqueda de un dato con ella.

La ventana se pone con una máscara, sin tocar las posiciones: cada token conserva la suya, la absoluta, también al
girar consultas y claves (RoPE). Xiao y sus coautores las renumeran dentro de la caché, que hace falta para pasar de la
longitud con que se entrenó el modelo; aquí nunca se pasa. Los pesos de SmolLM2 son una aproximación de 4 bits de los
publicados: lo que salga vale para ese modelo.

Letras de las formas: h cabezas, n tokens, w ventana, s sumideros.
"""

import random
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..attention import KVCache, MultiHeadAttention, causal_mask, merge_heads, sliding_window_mask
from ..models import LoadedModel, load_smollm2
from . import haystack
from .smollm_heads import PARAGRAPHS
from .smollm_pruning import CHOICE_PARAGRAPHS

LENGTH = 512  # tokens de cada texto, con el de comienzo
FIRST_MEASURED = 192  # desde aquí se mide: toda consulta ha perdido ya de vista los primeros tokens
WINDOWS = (32, 64, 128)
WINDOW = 64  # la del resto de las comparaciones
NUM_SINKS = 4
SINK_COUNTS = (1, 2, 4, 8)
ELSEWHERE = (16, 128)  # entre qué posiciones se sortean los tokens que se guardan en lugar de los primeros
NEEDLE_LENGTH = 320
NEEDLE_WINDOW = 128

# Escritos para este experimento: ningún modelo se ha entrenado con ellos. Cada uno pasa de 512 tokens.
LONG_TEXTS = (
    "The lighthouse at Punta Brava had been automatic for eleven years when Irene Salas asked for permission to live "
    "in it. The harbour office did not know what to answer. There was a form for renting a mooring, a form for "
    "selling ice and a form for painting advertisements on the breakwater, but there was no form for a retired "
    "geography teacher who wanted to sleep under a lamp that no longer needed anybody. In the end a clerk crossed out "
    "the word «kiosk» on a sheet of paper and wrote «lighthouse» above it, and so for the next four winters Irene "
    "paid the rent of a kiosk. She brought very little with her: a table, a bed, two boxes of maps and a barometer "
    "that had belonged to her father. The first thing she learned was that the tower was not silent. The motor of the "
    "lamp hummed in a low note, the iron stairs clicked when the sun left them, and in a north wind the whole "
    "building gave a long sigh, as if it had been holding its breath. The second thing she learned was that people on "
    "boats looked for a person. Fishermen who had never paid attention to the light began to wave at the window on "
    "their way out, and when she waved back they lifted a hand from the wheel without turning their heads, the way "
    "one greets a neighbour. In February of the third winter the lamp failed. It was not a storm; it was a mouse, "
    "which had chewed through a cable behind the motor. Irene noticed it because the hum stopped. She called the "
    "harbour office, where the telephone rang for a long time, and then she called the clerk at home. He told her "
    "that a technician would come from the city on Monday. It was Friday evening, and three boats were still outside. "
    "She went down to the store, found the old paraffin lantern that the last keeper had left there, and cleaned the "
    "glass with her sleeve. Then she carried it up the hundred and twelve steps and turned it by hand, counting the "
    "seconds aloud, four dark and one bright, until the boats came in. Nobody wrote about it. The technician replaced "
    "the cable on Monday and found the lantern still warm. But in spring, when Irene went to the office to pay, the "
    "clerk had prepared a new form. It had a proper heading and an empty line for the name of the building. He had "
    "written it himself, he said, and he was rather proud of it. She signed under the word «keeper», although both of "
    "them knew that there was no such post, and then she asked him whether he had ever seen the lamp from inside. He "
    "had not. In thirty years at the harbour he had never once climbed the stairs. They went up that same afternoon, "
    "slowly, because of his knees, and he stood for a while beside the great lens with his hat in his hands.",
    "How does a river decide where to bend? A child who pours water down a heap of sand sees the answer before any "
    "book explains it. The water never runs straight for long. A pebble, a root or a patch of harder ground pushes it "
    "a little to one side, and from that moment the small difference feeds itself. On the outside of the bend the "
    "current is faster, so it tears away a bit of the bank. On the inside it is slower, so it drops the sand that it "
    "was carrying. The bend becomes wider, and because it is wider the water on the outside must run even faster. "
    "What began as an accident turns into a habit. Geographers call these curves meanders, after a river in Asia "
    "Minor that the Greeks found ridiculous. Measured on a map, they are surprisingly regular. From one bend to the "
    "next of the same side there is a distance of about eleven times the width of the river, whether the river is a "
    "stream that one can jump over or the largest on a continent. The reason is not that rivers obey a rule, but that "
    "the same two processes, tearing and dropping, work at every size. A laboratory with a table of sand and a garden "
    "hose can produce in one afternoon what takes a valley several thousand years. A bend cannot grow for ever. As "
    "the loop becomes longer, its two ends come closer together, until only a narrow neck of land separates them. "
    "Then, usually during a flood, the river breaks through the neck and takes the short way. The old loop is left "
    "behind as a lake in the shape of a horseshoe. It has no current any more, so it fills slowly with mud and reeds, "
    "and after some centuries only a dark curve in a field of wheat remembers it. From an aeroplane such scars can be "
    "seen on both sides of many rivers, crossing one another like lines that somebody wrote and rubbed out. People "
    "who live beside a river tend to forget that it moves. They build on the inside of the bend, where the ground is "
    "flat and the fields are good, and they are astonished when, two generations later, the water is at the door of "
    "those who built on the outside. Engineers have tried to hold rivers still with stones and concrete. It works for "
    "a time, but a river that cannot bend runs faster, and a faster river digs deeper, until the bridges stand on "
    "legs that are too short. In the last years some towns have done the opposite: they have taken the stones away, "
    "bought the lowest fields and let the river wander inside a wide belt of meadows. In summer the belt is a park. "
    "In a flood it is a bed for the river, which spreads, slows down and drops its sand there instead of in the "
    "cellars. The first mayor who proposed it was laughed at. Her successor has put up a bench with her name, at the "
    "outside of a bend, where it will last about twenty years.",
    "Dear Tobias, you asked me in your last letter how we ever managed to open the restaurant, and I promised you the "
    "true story instead of the one that we tell the customers. The true story begins with an oven that nobody could "
    "lift. My sister Rosa had bought it from a convent that was closing. It had eight iron doors, it weighed as much "
    "as a small car, and the nuns had let her have it for the price of the coal that was still inside. She told me "
    "about it only after she had paid, because she knew what I would say. I said it anyway. To get the oven out of "
    "the convent we needed six men, two beams and a whole day. To get it into our kitchen we had to take out the "
    "window, and then the frame of the window, and in the end a good part of the wall. The neighbour from the second "
    "floor came down to look at the hole and asked us whether we had a permit. Rosa gave him a glass of wine and "
    "asked him about his daughter, who studies in Vienna, and he talked about her for an hour and forgot the "
    "question. By the time he remembered it, the wall was closed again and the oven was on the right side of it. Then "
    "we discovered that it was too good. An oven like that is made to bake for ninety people, and it does not "
    "understand small numbers. If you light it for one pan of bread, it burns the bread. So for the first three weeks "
    "we baked ninety portions of everything, every evening, for the eleven or twelve people who came. What was left "
    "over Rosa carried to the station in baskets, and she gave it to the drivers of the night buses. I counted the "
    "money every night and I did not sleep. I told her that we would be closed by Easter. She told me that an oven "
    "needs time. What happened next I still cannot explain as a matter of business. The drivers began to come on "
    "their free days, and they brought their families. They are people who know everybody, since everybody takes the "
    "bus. One of them had a cousin at the newspaper. The cousin wrote nothing about the food, but he wrote about the "
    "oven: eight doors, a convent, a wall taken down. On the Saturday after that there was a queue as far as the "
    "chemist's. We baked ninety portions, and for the first time ninety people ate them. So when customers ask me "
    "today what the secret is, I say the oven, and they laugh because they think that I mean the fire or the stone. I "
    "mean the fact that it could not make less. We had no talent for business, Tobias, and no plan; we only had a "
    "machine that forced us to be generous until it paid. Rosa says hello. She has seen another one, in a hospital in "
    "the mountains, with twelve doors, and she has already asked the price. Come soon, before there is a hole in the "
    "wall again.",
    "Before you keep hens, ask yourself who will close the door at night. It is not a joke. Almost every hen that is "
    "lost in a garden is lost between sunset and the moment when somebody remembers. Hens go to bed by themselves, "
    "without any help, when the light falls below a certain point; they walk up the ramp one after another, quarrel a "
    "little about the best place on the perch and then sit down. But they do not shut the door behind them, and the "
    "fox knows it. He comes by at the same hour as the postman of the night, tries the handle, so to speak, and goes "
    "on. He has time. He only needs you to forget once. The house itself can be simple. Four hens need about as much "
    "floor as a large table, a perch as thick as a broom handle and two boxes with straw in which to lay. What "
    "matters is air. Beginners close every gap because they imagine that the birds will be cold, and in the morning "
    "the walls are wet. A hen in winter wears the best coat in the world, and what makes her ill is not the cold but "
    "the damp that comes from her own breath. Leave an opening under the roof, higher than the perch, so that the bad "
    "air can leave without a draught on their backs. Cover it with strong wire, not with the thin kind that is sold "
    "for the purpose, for a marten opens that with his teeth. Feed them in the morning and do not spoil them. A hen "
    "that fills herself with kitchen scraps before noon will not touch the grain, and two weeks later the shells of "
    "her eggs are as thin as paper. If that happens, give her back her own shells, dried in the oven and crushed so "
    "small that she cannot recognise what they were. This last point is important: a hen that learns to recognise an "
    "egg as food will not unlearn it. Water must be clean every day. They drink more than one thinks, and a hen that "
    "has gone thirsty for an afternoon in August may stop laying for ten days, as if she wanted to make a point. You "
    "will get an egg a day from each of them in spring, fewer in summer and hardly any in the dark months, unless you "
    "put a lamp in the house, which I do not advise. They have a right to their winter. After three or four years the "
    "eggs become few and large, and then you must decide what kind of owner you are. Some people make soup. Others, "
    "among whom I count myself, discover that an old hen is good company: she follows the spade when you dig, she "
    "comes when you call, more or less, and she turns the compost better than any fork. Whatever you decide, decide "
    "it before you give them names. And tonight, when you have read this, go out with a lamp and count them, and then "
    "close the door.",
    "The case that the students still call «the two clocks» took the court of Arlen less than a morning, but it has "
    "been discussed ever since. The facts were never in doubt. A watchmaker named Holm had built a clock for the town "
    "hall and had been paid for it. The contract said that the clock should be «exact», and it said nothing more. For "
    "nineteen years nobody complained. Then the railway came, and with the railway came a second clock, hung above "
    "the platform and set every day at noon by telegraph. It was then found that the clock of the town hall was "
    "eleven minutes behind. The council asked Holm to correct it. He refused. His clock, he said, had always shown "
    "the time of Arlen, which he had taken from the sun with his own instruments; if the railway preferred the time "
    "of the capital, that was the business of the railway. The council answered that a town could not live with two "
    "times, that people were missing their trains, and that «exact» could only mean in agreement with the clock that "
    "everybody used. Since he would not move the hands, they sued him for the price of the work. Holm defended "
    "himself. He brought to the court a brass plate, a string and a table of numbers, and he asked the judge to come "
    "to the window at noon. There he showed her that when the shadow of the string fell on the line, his clock was "
    "striking twelve, and that the clock of the station had already struck some time before. He then asked a question "
    "that has become famous among lawyers. If the contract had been kept on the day on which it was signed, he said, "
    "on what day had it been broken, and which of the two parties had done anything on that day? The judge, Amalie "
    "Brandt, did not decide which time was right. In her opinion, which fits on two pages, she wrote that a word in a "
    "contract means what both parties could have meant when they wrote it, and that in that year nobody in Arlen had "
    "known any other noon than the one at the window. Holm had therefore delivered what he promised. But she went on "
    "to say that a town may change its mind about what it needs, and that it must then pay for the change like anyone "
    "else. If the council wanted the hands moved, it should order the work from a watchmaker, at the usual price. She "
    "added that she knew of a good one. Holm moved the hands that same week and sent a bill for half a day. He also "
    "did something that nobody had ordered: beside the great dial he fixed his brass plate, with the line and the "
    "string, so that whoever wished could still read the old noon on a sunny day. It is there now. The difference is "
    "still eleven minutes, and the guides, when they bring visitors to the square, like to be there in time to show "
    "it. Students are usually asked who won. The better ones ask which clock they should use to answer.",
    "When the orchestra of the valley decided to play without a conductor, it was not out of principle. The conductor "
    "had broken his leg on the ice, the concert was in nine days, and the hall had been paid in advance. Someone "
    "suggested that the first violin should lead with her head, as they do in quartets. Someone else said that forty "
    "people could not look at one head. It was Nadia, who played the bassoon and hardly ever spoke, who proposed that "
    "for one rehearsal they should simply sit in a circle and see what happened. What happened was terrible. The slow "
    "movement began three times and fell apart three times, always at the same place, where the horns come in after a "
    "long rest. With a conductor nobody had ever noticed that the horns did not count. They had been looking at his "
    "left hand for years. Now they had to listen for the moment when the cellos stop, and they discovered that they "
    "did not know what the cellos were playing. So they asked them. The cellos played their part alone, and the horns "
    "said that it was beautiful, and that they had had no idea. After that the rehearsals became longer and stranger. "
    "People who had shared a stand for ten years asked each other what they heard. The second violins, who always "
    "complained that they were bored, found out that for sixteen bars in the last movement they were the only ones "
    "who kept the rhythm, and they began to sit up straight. The timpani player moved from the back to the middle, "
    "because otherwise the far side of the circle received his beats too late. An engineer who played the viola "
    "explained that sound needs three hundredths of a second for ten metres, and for once everybody listened to an "
    "explanation by a viola. There were quarrels too. A conductor decides, and whoever disagrees can blame him in the "
    "bar. Now each question of speed had to be settled by forty people, and two of them stopped talking to each other "
    "over a single pause. Nadia found the way out of it. They would play each disputed passage in both manners, she "
    "said, without any talk, and then they would vote by starting the one that they preferred. Nearly always all of "
    "them started the same one. When they did not, the noise was so ugly that it made them laugh, and they tried "
    "again. The concert was not perfect. In the second piece the oboe lost half a bar, and one could hear a small "
    "shiver go through the circle before the others waited for her. But people who had come for years said afterwards "
    "that they had never seen the faces of the musicians before. The conductor was there, with his leg on a chair. He "
    "clapped longer than anybody. When he came back to work in spring, he found the chairs still in a circle, and he "
    "understood that he was being asked a question. He thought about it for a minute, put his stand between the "
    "bassoon and the horns, and asked what they wanted him to do when they did not need him.",
    "A loaf of bread contains four things, flour, water, salt and time, and only the last of them cannot be bought. "
    "That is the reason why the bread of the big factories tastes the way it does. It is not that they use bad flour; "
    "on the whole their flour is better and cleaner than anything that our grandparents knew. It is that a dough "
    "which rests for eighteen hours takes up room for eighteen hours, and room costs money. So they have learned to "
    "do in fifty minutes, with very fast mixers and some powder, what used to be done in a night. The loaf that comes "
    "out is light, white and regular, and it is stale on the second day. What goes on during that night? Two things "
    "at once, which do not depend on each other as much as one might think. The first is the gas. Yeast eats sugar "
    "and breathes out the bubbles that lift the dough, and this part can be hurried with warmth and with more yeast. "
    "The second is slower. In the wet flour certain enzymes begin to take apart the long chains of starch and of "
    "protein. From the starch come sugars, which will brown in the oven and make the crust. From the protein come "
    "smaller pieces with a taste of their own. Bacteria join in and leave acids behind, which keep the mould away. "
    "None of this can be hurried much: if one makes it warmer the gas runs ahead, and the dough has collapsed before "
    "the taste is there. A clever baker plays one process against the other. She uses very little yeast, a quarter of "
    "what the books say, and leaves the dough in a cold place. The cold slows the yeast down a great deal and the "
    "enzymes only a little, so that the taste catches up with the gas. In the morning the dough is full of large, "
    "lazy bubbles, it smells faintly of apples, and it is so soft that it can hardly be shaped. Then it needs a very "
    "hot stone. The heat makes the bubbles grow one last time before the crust closes, and the steam from the wet "
    "surface keeps that crust from closing too soon. My neighbour, who is a chemist, did not believe in any of this, "
    "and we made a trial of it. We mixed one single dough and divided it into six pieces. Two were baked after one "
    "hour, two after eight and two after twenty-four, all in the same oven, at the same heat. To be fair, each pair "
    "was mixed at a different time of the day, so that all six came out of the oven together. Then we covered their "
    "crusts, cut them into cubes and asked the whole staircase to put them in order. Eleven people out of fourteen "
    "put the oldest dough first. Two preferred the youngest, because it reminded them of toast, and one said that "
    "bread was bread. The chemist was among the eleven. He has a cold shelf in his cellar now, and on Fridays he "
    "rings at my door with half a loaf, although I have told him that he still uses too much salt.",
    "The first time that Samuel got lost in the archive he was found by the cleaning lady, and the second time he was "
    "not found at all; he came out by himself, on the other side of the street, through a door that was not on any "
    "plan. The archive of the old insurance company filled four cellars under three houses. It held the papers of a "
    "hundred and sixty years, and in all that time nobody had ever thrown anything away, because a policy that has "
    "been paid may still be asked about. Samuel had been hired for six months to make a list. He began, as anybody "
    "would, at the beginning. In the first room the shelves were marked with years, from 1848 onwards, and for two "
    "weeks the work went well. Then, without any warning, the years stopped, and the boxes began to carry names of "
    "ships. A clerk in the eighteen seventies had evidently thought that this was more practical. It was, as long as "
    "one knew the ships. Twelve metres further on came a third system, invented by a man called Ruiz, who had "
    "arranged everything by the kind of misfortune: fire, hail, theft, glass, horses. Ruiz had stayed for forty "
    "years, and his system went round two corners and down a stair. Samuel gave up the list and bought a roll of red "
    "string. He tied one end to the handle of the entrance and drew it behind him, and at each place where one way of "
    "thinking gave place to another he made a knot and hung a card on it. On the card he wrote the name of the clerk, "
    "if he could find it out, and one sentence that explained the idea: «Here you must know the ship.» «Here you must "
    "know what went wrong.» «Here you must know who complained.» By the end of the fourth month the string had "
    "thirty-one knots, and he could find any paper in ten minutes, which was eight more than the director had hoped "
    "and several hours less than it had taken before. The director came down to see it and was not pleased. He had "
    "wanted a list that could be typed into a machine. Samuel tried to explain that a list would be a thirty-second "
    "system, laid on top of the others, and that whoever came after him would tie a knot there and hang up a card. "
    "They argued about it in the room of the horses, not very loudly, since the place swallowed every sound. Finally "
    "the director asked him to find something, as a test: the policy of his own grandfather, who had kept a shop for "
    "lamps and had lost it in some accident that the family never spoke of. It was not under the year, and it was not "
    "under glass. Samuel followed the string to the nineteenth knot, read his own card, and turned left instead of "
    "right. Eleven minutes later he put a thin blue folder into the hands of the director, who opened it, read the "
    "first page standing up and then sat down on a box. The archive has no list to this day. The string has been "
    "replaced by a painted line, and there are thirty-four knots.",
)  # fmt: skip


# --- Los textos ------------------------------------------------------------------------------------------------------


def text_tokens(loaded: LoadedModel) -> Tensor:
    """Once textos con el token de comienzo, cortados a la misma longitud: (11, 512).

    Los ocho primeros son de un solo asunto. Los otros tres, seis párrafos de los capítulos 06 y 07 uno detrás de
    otro, de asuntos distintos: ahí lo lejano ayuda menos.

    Args:
        loaded: SmolLM2.

    Returns:
        Identificadores (11, LENGTH).
    """
    paragraphs = [*PARAGRAPHS, *CHOICE_PARAGRAPHS]
    joined = [" ".join(paragraphs[i : i + 6]) for i in range(0, len(paragraphs) - 5, 6)]
    rows = [loaded.tokenizer(text, add_special_tokens=False)["input_ids"] for text in (*LONG_TEXTS, *joined)]
    return torch.tensor([[loaded.tokenizer.bos_token_id, *row[: LENGTH - 1]] for row in rows])


def without_meaning(loaded: LoadedModel, tokens: Tensor, num_sinks: int = NUM_SINKS) -> Tensor:
    """Los mismos textos, con los primeros tokens cambiados por saltos de línea."""
    (newline,) = loaded.tokenizer("\n", add_special_tokens=False)["input_ids"]
    changed = tokens.clone()
    changed[:, :num_sinks] = newline
    return changed


# --- Las máscaras ----------------------------------------------------------------------------------------------------


def kept_places_mask(n: int, window: int, places: Sequence[int]) -> Tensor:
    """Ventana deslizante y, además, unas posiciones que se guardan siempre: (n, n).

    Con `places` = 0 … s − 1 es `sliding_window_mask(n, window, num_sinks=s)`.

    Args:
        n: tokens.
        window: posiciones recientes que ve cada consulta, ella incluida.
        places: las que se guardan.

    Returns:
        Booleana, `True` = puede atender.
    """
    kept = torch.zeros(n, dtype=torch.bool)
    kept[list(places)] = True
    return sliding_window_mask(n, window) | (causal_mask(n) & kept)


def random_places(seed: int, num_places: int = NUM_SINKS) -> list[int]:
    """Posiciones sorteadas que no son de las primeras: el control de los sumideros."""
    return sorted(random.Random(f"lugares {seed}").sample(range(*ELSEWHERE), num_places))


def read(model: nn.Module, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    """Lo que sale de la última capa, ya normalizado, si cada token solo puede mirar donde diga la máscara.

    La misma máscara en todas las capas y cabezas. Las posiciones son las absolutas.

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        mask: booleana (n, n), `True` = puede atender; si falta, la causal.

    Returns:
        Tensor (B, n, d_model).
    """
    added = None
    if mask is not None:  # transformers suma la máscara a las puntuaciones
        added = torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)[None, None]
        added = added.expand(len(tokens), 1, -1, -1)
    with torch.no_grad():
        return model.model(input_ids=tokens, attention_mask=added, use_cache=False).last_hidden_state


def losses(model: nn.Module, tokens: Tensor, mask: Tensor | None = None, start: int = 0) -> Tensor:
    """Pérdida de cada token, en nats, con una máscara: (B, n − 1 − start).

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        mask: como en `read`.
        start: la primera posición que predice.

    Returns:
        La casilla i habla del token start + i + 1.
    """
    hidden = read(model, tokens, mask)[:, start:-1]
    with torch.no_grad():
        logits = model.lm_head(hidden)
    return F.cross_entropy(logits.transpose(1, 2), tokens[:, start + 1 :], reduction="none")


def head_output_norms(model: nn.Module, tokens: Tensor, mask: Tensor | None = None, start: int = 0) -> Tensor:
    """Norma media de lo que escribe cada cabeza antes de W^O, desde la posición `start`: (n_layers, h).

    Args:
        model: un LLaMA de transformers.
        tokens: (B, n).
        mask: como en `read`.
        start: primera posición que cuenta.

    Returns:
        Tensor (n_layers, h).
    """
    h, found, hooks = model.config.num_attention_heads, [], []
    for layer in model.model.layers:
        hooks.append(
            layer.self_attn.o_proj.register_forward_pre_hook(
                lambda _, args: found.append(args[0][:, start:].unflatten(-1, (h, -1)).norm(dim=-1).mean((0, 1)))
            )
        )
    try:
        read(model, tokens, mask)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(found)


def read_silencing(
    model: nn.Module, attentions: Sequence[MultiHeadAttention], tokens: Tensor, mask: Tensor, place: int = 0
) -> Tensor:
    """Como `read`, pero lo que los demás tokens atienden en uno se tira: cuenta en la softmax y no aporta nada.

    Es lo mismo que atender sin ese token y multiplicar lo que escribe cada cabeza por 1 − p, con p el peso que ese
    token se habría llevado. El token silenciado sí se lee a sí mismo.

    Args:
        model: un LLaMA de transformers.
        attentions: las copias de sus capas de atención (`MultiHeadAttention.from_transformers`).
        tokens: (B, n).
        mask: booleana (n, n), `True` = puede atender.
        place: posición del token que se silencia.

    Returns:
        Tensor (B, n, d_model).
    """
    with torch.no_grad():
        hidden = model.model.embed_tokens(tokens)  # (B, n, d_model)
        for layer, attention in zip(model.model.layers, attentions, strict=True):
            normed = layer.input_layernorm(hidden)
            output, weights = attention(normed, mask=mask, is_causal=True, need_weights=True)  # (B, h, n, n)
            h, g = attention.num_heads, attention.num_kv_heads
            value = attention.qkv_proj(normed[:, place])[:, -g * attention.head_dim :].unflatten(-1, (g, -1))
            value = value.repeat_interleave(h // g, dim=1)[:, :, None]  # (B, h, 1, d_k)
            written = weights[..., place : place + 1] * value  # (B, h, n, d_k): lo que ese token pone en cada uno
            written[:, :, place] = 0
            hidden = hidden + output - F.linear(merge_heads(written), attention.out_proj.weight)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return model.model.norm(hidden)


# --- El modelo, con nuestra capa y una caché que no crece ------------------------------------------------------------


class WindowedDecoder:
    """Un LLaMA de transformers que atiende con nuestra `MultiHeadAttention` y guarda en nuestra `KVCache`.

    Embeddings, normalizaciones, redes *feed-forward* y lectura son los del modelo; de la atención se copian los pesos.

    Args:
        model: un LLaMA de transformers.
        window: tokens recientes que guarda cada capa; None = todos.
        num_sinks: tokens iniciales que además se guardan siempre.
    """

    def __init__(self, model: nn.Module, window: int | None = None, num_sinks: int = 0):
        self.model = model
        self.attentions = [MultiHeadAttention.from_transformers(layer) for layer in model.model.layers]
        self.reset(window, num_sinks)

    def reset(self, window: int | None = None, num_sinks: int = 0) -> None:
        """Vacía la caché y cambia su tamaño."""
        self.caches = [KVCache(window, num_sinks) for _ in self.attentions]

    @torch.no_grad()
    def __call__(self, tokens: Tensor) -> Tensor:
        """Lee unos tokens que siguen a los anteriores y devuelve los logits de cada uno.

        Args:
            tokens: (B, m), los nuevos.

        Returns:
            Tensor (B, m, V).
        """
        hidden = self.model.model.embed_tokens(tokens)  # (B, m, d_model)
        for layer, attention, cache in zip(self.model.model.layers, self.attentions, self.caches, strict=True):
            hidden = hidden + attention(layer.input_layernorm(hidden), is_causal=True, cache=cache)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self.model.lm_head(self.model.model.norm(hidden))

    def generate(self, tokens: Tensor, num_new: int) -> Tensor:
        """Continúa unos textos, siempre con el token más probable.

        Args:
            tokens: (B, n), lo nuevo desde la última llamada.
            num_new: tokens que se generan.

        Returns:
            Los generados, (B, num_new).
        """
        made = []
        for _ in range(num_new):
            tokens = self(tokens)[:, -1].argmax(-1, keepdim=True)
            made.append(tokens)
        return torch.cat(made, dim=1)

    def cache_bytes(self) -> int:
        """Bytes de las claves y los valores guardados ahora, en todas las capas."""
        stored = [x for cache in self.caches for x in (cache.keys, cache.values) if x is not None]
        return sum(x.numel() * x.element_size() for x in stored)


# --- Los registros ---------------------------------------------------------------------------------------------------


def conditions(seeds: Sequence[int]) -> dict[str, Tensor | None]:
    """Las máscaras que se comparan: nombre → máscara.

    «w» es la ventana sola; «w+s», con s sumideros; «w plus», una ventana s tokens mayor, que guarda los mismos que
    «w+s»; «w elsewhere i», con otros s tokens guardados, sorteados con la semilla i.

    Args:
        seeds: las de los sorteos.

    Returns:
        La completa (None) y las demás.
    """
    masks: dict[str, Tensor | None] = {"full": None}
    for window in WINDOWS:
        masks[f"{window}"] = sliding_window_mask(LENGTH, window)
        masks[f"{window}+{NUM_SINKS}"] = sliding_window_mask(LENGTH, window, num_sinks=NUM_SINKS)
        masks[f"{window} plus"] = sliding_window_mask(LENGTH, window + NUM_SINKS)
    for count in SINK_COUNTS:
        masks[f"{WINDOW}+{count}"] = sliding_window_mask(LENGTH, WINDOW, num_sinks=count)
    for seed in seeds:
        masks[f"{WINDOW} elsewhere {seed}"] = kept_places_mask(LENGTH, WINDOW, random_places(seed))
    return masks


def record(seeds: list[int]) -> dict:
    """Pérdida media de cada texto, desde la posición 192, con cada máscara.

    Args:
        seeds: fijan qué otros tokens se guardan en el control de los sumideros.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = load_smollm2()
        tokens = text_tokens(loaded)
        blank = without_meaning(loaded, tokens)
        found: dict = {"loss": {}, "places": {str(seed): random_places(seed) for seed in seeds}}
        masks = conditions(seeds)
        for name, mask in masks.items():
            found["loss"][name] = _means(loaded.model, tokens, mask)
        for name in ("full", f"{WINDOW}", f"{WINDOW}+{NUM_SINKS}"):
            found["loss"][f"blank {name}"] = _means(loaded.model, blank, masks[name])
        norms = {
            name: head_output_norms(loaded.model, tokens[:4], masks[name], FIRST_MEASURED)
            for name in ("full", f"{WINDOW}", f"{WINDOW}+{NUM_SINKS}")
        }
        found["norms"] = {name: [[round(v, 4) for v in row] for row in x.tolist()] for name, x in norms.items()}
        return found | {"length": LENGTH, "first": FIRST_MEASURED, "num_tokens": LENGTH - 1 - FIRST_MEASURED}
    finally:
        torch.set_num_threads(threads)


def _means(model: nn.Module, tokens: Tensor, mask: Tensor | None) -> list[float]:
    return [round(float(losses(model, row[None], mask, FIRST_MEASURED).mean()), 4) for row in tokens]


def silence_record(seeds: list[int]) -> dict:
    """Pérdida media de cada texto con el primer token en la softmax y sin nada de su valor.

    Args:
        seeds: no cambian nada: aquí no hay sorteos.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = load_smollm2()
        attentions = [MultiHeadAttention.from_transformers(layer) for layer in loaded.model.model.layers]
        masks = {"full": causal_mask(LENGTH), f"{WINDOW}+1": sliding_window_mask(LENGTH, WINDOW, num_sinks=1)}
        found: dict[str, list[float]] = {name: [] for name in masks}
        for row in text_tokens(loaded):
            for name, mask in masks.items():
                hidden = read_silencing(loaded.model, attentions, row[None], mask)[0, FIRST_MEASURED:-1]
                with torch.no_grad():
                    logits = loaded.model.lm_head(hidden)
                found[name].append(round(float(F.cross_entropy(logits, row[FIRST_MEASURED + 1 :])), 4))
        return {"loss": found}
    finally:
        torch.set_num_threads(threads)


MEMORIES = {"full": (None, 0), "window": (NEEDLE_WINDOW, NUM_SINKS)}
"""Las dos cachés de las agujas: nombre → (ventana, sumideros)."""


def needle_record(seeds: list[int]) -> dict:
    """Si el modelo encuentra un dato escondido en 320 tokens, con la caché entera y con ventana y sumideros.

    Args:
        seeds: una sola, que fija los datos y el relleno; lo que varía son las agujas.
    """
    (seed,) = seeds
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        loaded = load_smollm2()
        decoder = WindowedDecoder(loaded.model)
        rows = []
        for part in (haystack.CHOICE, haystack.TEST):
            for i, stack in enumerate(haystack.examples(loaded, part, NEEDLE_LENGTH, seed=seed)):
                row = {
                    "depth": haystack.DEPTHS[i % len(haystack.DEPTHS)], "answer": stack.answer,
                    "distance": NEEDLE_LENGTH - stack.needle[0], "replies": {},
                }  # fmt: skip
                for name, memory in MEMORIES.items():
                    decoder.reset(*memory)
                    row["replies"][name] = haystack.reply(
                        loaded, decoder.generate(stack.tokens[None], haystack.NEW_TOKENS)[0]
                    )
                row["right"] = {name: haystack.is_right(text, stack.answer) for name, text in row["replies"].items()}
                rows.append(row)
        return {"rows": rows, "length": NEEDLE_LENGTH, "window": NEEDLE_WINDOW, "num_sinks": NUM_SINKS}
    finally:
        torch.set_num_threads(threads)
