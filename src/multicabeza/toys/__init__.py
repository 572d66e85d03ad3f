"""Los modelos pequeños que se entrenan en los capítulos y los registros de sus repeticiones.

Un archivo por experimento (datos, modelo y entrenamiento), y además:

- `records`: lo que no cabe en vivo (otras semillas, barridos) se guarda en `results/*.json` y se lee de ahí;
- `intervals`: los intervalos con que el libro acompaña cada medida;
- `training`: los pasos de un entrenamiento con su barra de progreso.
"""
