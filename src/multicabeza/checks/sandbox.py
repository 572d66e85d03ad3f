"""Ejecutar código ajeno sin fiarse de él: en un hilo aparte, con límites, y dejando todo como estaba.

Por qué un hilo. Vale en el hilo principal y fuera de él, en Linux, Windows y Colab (las señales no), no copia el
proceso (un `fork` con torch cargado puede bloquearse) y no hereda del cuaderno ni `no_grad`, ni `inference_mode`, ni
`autocast`, ni el dispositivo por omisión, que en torch pertenecen a cada hilo.

Cómo se detiene. Pasado el plazo, se pide al intérprete que lance una excepción dentro del hilo, y se repite hasta que
sale. Un bucle que se traga todas las excepciones recibe otra, cuyo constructor no termina: el hilo queda aparcado, sin
gastar procesador ni pedir más memoria. Una espera dentro de C (`time.sleep(1e9)`) no se puede cortar: se la abandona y
se detendrá al despertar.

Lo que no cubre: una sola operación de C que no suelta el intérprete (`sum(range(10**12))`) también retiene al
vigilante; ahí solo queda reiniciar el kernel.
"""

import builtins
import ctypes
import math
import mmap
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

SECONDS = 5.0  # plazo de una comprobación entera: un triple bucle de Python sobre nuestros casos tarda centésimas
MEGABYTES = 500  # crecimiento admitido: nuestros casos no llegan a uno
LOCK = threading.Lock()  # una comprobación cada vez: el estado que se guarda y se repone es de todo el proceso

_thread_notes = threading.local()


@dataclass(frozen=True)
class Stopped:
    """La respuesta no terminó: agotó el plazo («tiempo») o la memoria («memoria»)."""

    reason: str


class Interrupted(BaseException):
    """Lo que lanza el vigilante; nadie más debe tratarlo."""


class _Stop(Interrupted):
    """Lo que se lanza dentro de una respuesta que ha agotado su plazo."""


class _Park(Interrupted):
    """Para quien se traga `_Stop`: construirla no termina nunca, y el hilo se queda quieto."""

    def __init__(self):
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()


class _Worker(threading.Thread):
    """Un hilo que no protesta si la excepción del vigilante le llega cuando ya se iba."""

    def run(self):
        try:
            super().run()
        except Interrupted:
            pass


def answering() -> bool:
    """¿Es este el hilo en el que corre ahora una respuesta?"""
    return getattr(_thread_notes, "answering", False)


def run_isolated(function: Callable):
    """Ejecuta `function` en un hilo nuevo, que no hereda los modos de torch del cuaderno, y devuelve su resultado."""
    box: list = []

    def work():
        try:
            box.append((function(), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    value, error = box[0]
    if error is not None:
        raise error
    return value


def run_limited(steps: Sequence[Callable], *, seconds: float | None = None, megabytes: float | None = None) -> list:
    """Ejecuta `steps` uno tras otro en un hilo vigilado.

    Args:
        steps: funciones sin argumentos; no deben lanzar más que lo que lanza este módulo.
        seconds: plazo para todas juntas (por omisión, `SECONDS`).
        megabytes: crecimiento de memoria admitido (por omisión, `MEGABYTES`).

    Returns:
        Lo que devolvió cada paso; desde el que agotó un límite, `Stopped`.
    """
    seconds = SECONDS if seconds is None else seconds
    growth = (MEGABYTES if megabytes is None else megabytes) * 2**20
    results: list = []
    done, expired = threading.Event(), threading.Event()

    def work():
        _thread_notes.answering = True
        while not done.is_set():  # si la excepción del vigilante llega tarde, se recoge aquí
            try:
                for step in steps[len(results) :]:
                    if expired.is_set():
                        break
                    result = step()
                    if not expired.is_set():
                        results.append(result)
                done.set()
            except Interrupted:
                continue

    thread = _Worker(target=work, daemon=True)
    reason, start, base = None, time.monotonic(), _resident_bytes()
    with _muted():
        thread.start()
        try:
            while reason is None and not done.wait(0.01) and thread.is_alive():
                if time.monotonic() - start > seconds:
                    reason = "tiempo"
                elif _resident_bytes() - base > growth:
                    reason = "memoria"
        except BaseException:  # quien lee pulsa «detener»: se detiene también su código
            reason = "interrupción"
            raise
        finally:
            if reason is not None:
                expired.set()
                _end(thread, done)
    finished = list(results)
    return finished + [Stopped(reason or "tiempo")] * (len(steps) - len(finished))


def _end(thread: threading.Thread, done: threading.Event) -> None:
    """Saca al hilo de donde esté; si se resiste, lo aparca."""
    for exception in (_Stop, _Park):
        until = time.monotonic() + 0.4
        while not done.is_set() and time.monotonic() < until:
            _throw(thread, exception)
            done.wait(0.005)
    if not done.is_set():  # duerme en C, o está aparcado: lo primero que verá al despertar es esto
        _throw(thread, _Stop)


def _throw(thread: threading.Thread, exception: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(exception))


def _resident_bytes() -> int:
    """Memoria que ocupa ahora el proceso (0 si no se puede saber)."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE
    except OSError:
        pass
    try:
        import psutil  # viene con ipykernel

        return psutil.Process().memory_info().rss
    except ImportError:
        return 0


class _Mute:
    """Una salida que deja pasar a los hilos que ya había y calla a los nuevos: la respuesta y los que ella abra."""

    def __init__(self, stream):
        self._stream, self._allowed = stream, set(threading.enumerate())

    def write(self, text: str) -> int:
        if self._stream is None or threading.current_thread() not in self._allowed:
            return len(text)
        return self._stream.write(text)

    def writelines(self, lines) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        """Nada: la salida es del cuaderno."""

    def __getattr__(self, name: str):
        return getattr(self._stream, name)


@contextmanager
def _muted() -> Iterator[None]:
    saved = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_Mute(stream) for stream in saved)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = saved


def _get_deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(mode: tuple[bool, bool]) -> None:
    if mode != _get_deterministic():  # aunque no cambie nada, la llamada carga medio compilador: segundos
        torch.use_deterministic_algorithms(mode[0], warn_only=mode[1])


# Lo que es de todo el proceso: cómo se lee, cómo se repone y con qué valor se corrige (None: con el que haya).
GLOBAL_STATE = (
    (torch.get_rng_state, torch.set_rng_state, None),
    (lambda: torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [], torch.cuda.set_rng_state_all, None),
    (random.getstate, random.setstate, None),
    (np.random.get_state, np.random.set_state, None),
    (torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    (_get_deterministic, _set_deterministic, (False, False)),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, None),
    (torch.get_num_threads, torch.set_num_threads, 1),  # tensores minúsculos: repartirlos entre hilos los frena
    (sys.getrecursionlimit, sys.setrecursionlimit, None),
)

WATCHED: list[ModuleType | type] = [torch, torch.Tensor, torch.nn.functional, math, builtins]


@contextmanager
def untouched() -> Iterator[None]:
    """Corrige con el estado de torch recién abierto, y al salir repone el que había."""
    saved = [(restore, read()) for read, restore, _ in GLOBAL_STATE]
    try:
        for _, restore, wanted in GLOBAL_STATE:
            if wanted is not None:
                restore(wanted)
        yield
    finally:
        for restore, value in saved:
            restore(value)


@contextmanager
def guarded() -> Iterator[list[str]]:
    """Repone al salir las funciones de torch, de Python y de esta corrección que el código ejecutado haya sustituido.

    Yields:
        Lista que, al salir, contiene los nombres repuestos («torch.softmax»).
    """
    saved = [(owner, dict(vars(owner))) for owner in WATCHED]
    replaced: list[str] = []
    try:
        yield replaced
    finally:
        missing = object()
        for owner, names in saved:
            now = dict(vars(owner))
            # En un módulo, un nombre nuevo es algo que se cargó tarde; en Tensor, un método que tapa al heredado.
            changed = {name for name in now.keys() - names.keys() if owner is torch.Tensor}
            changed |= {
                name
                for name in names
                if now.get(name, missing) is not names[name]
                and _watched(owner, name)
                and not _wrapped_by_torch(now.get(name), names[name])
            }
            for name in sorted(changed):
                if name in names:
                    setattr(owner, name, names[name])
                else:
                    delattr(owner, name)
                replaced.append(f"{owner.__name__.rpartition('.')[2]}.{name}")


def _watched(owner: ModuleType | type, name: str) -> bool:
    return owner is torch.Tensor or not name.startswith("_")


def _wrapped_by_torch(new, old) -> bool:
    """¿Es `new` la misma función, envuelta por torch? Lo hace al cargar tarde una parte suya (el contador de FLOPs)."""
    code = getattr(new, "__code__", None)
    inside = code is not None and code.co_filename.startswith(str(Path(torch.__file__).parent))
    return inside and getattr(new, "__wrapped__", None) is old
