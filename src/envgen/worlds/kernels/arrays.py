"""Array operations that numba compiles slowly when they are written as in NumPy."""

from envgen.jit import jit


@jit
def copy_elements(source, target):
    """Copy a one-dimensional array or a tuple to the start of an array, as `target[: len(source)] = source` does.

    Compiling such an assignment takes about two seconds, because it may have to report shapes that do not fit.
    """
    for i in range(len(source)):
        target[i] = source[i]
