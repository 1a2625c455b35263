"""A warm Python: a command that is `python FILE`, `-m MODULE` or `-c CODE` starts as a fork of the worker, which has
imported what was declared, and not as a new interpreter. Weaker than an exec: the fork begins with the worker's memory.

The fork leaves the worker's frames before the command begins. It ends as any Python does (threads, atexit, destructors,
open files), less the taking down of what the worker had: that would copy every page of it.
"""

import _signal as signal
import builtins
import gc
import io
import os
import sys

from frames import Become, ignoring

GUEST = ("worker", "frames", "sweep", "sockets", "fifos", "watch", "files", "relay", "start", "run", "serve", "warm")
_DESCRIPTORS = 1024  # above every descriptor that the worker opens
_AT_START = (
    "PYTHON",
    "LD_",
    "MALLOC_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
)  # read once, when an interpreter or a library starts
_PR_SET_DUMPABLE = 4


class Warm:
    """What was imported, and for which commands it will do."""

    def __init__(self, python, modules, prctl):
        self._python = python
        self._prctl = prctl
        self._given = _at_start(os.environb)
        for name in modules:
            __import__(name)
        import runpy  # noqa: F401 - every `-m` needs it

        gc.collect()
        gc.freeze()

    def fits(self, argv, environment):
        """Whether a fork can be what `argv` would start."""
        if argv[0] != self._python or len(argv) < 2 or _at_start(environment) != self._given:
            return False
        if argv[1] in (b"-m", b"-c"):
            return len(argv) > 2
        return not argv[1].startswith(b"-") and os.path.isfile(argv[1])

    def become(self, argv, environment):
        """In the fork, with its three streams, folder and limits set: the rest of what an exec would change."""
        os.closerange(3, _DESCRIPTORS)
        for signum in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(signum, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._prctl is not None:
            self._prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # its own /proc files are its own again
        for name in [name for name in os.environb if name not in environment]:
            del os.environb[name]
        os.environb.update(environment)
        raise Become([os.fsdecode(word) for word in argv])


def _at_start(environment):
    starts = tuple(start.encode() for start in _AT_START)
    return {name: value for name, value in environment.items() if name.startswith(starts)}


def start(argv):
    """Be `python ARGV...`, from the bottom of the stack. Does not return."""
    known = set(sys.modules)
    path = sys.path[:]
    while path and path[0] in ("", "/run/guest"):
        del path[0]
    for name in GUEST:
        sys.modules.pop(name, None)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()  # Python's own generator does so by itself in every fork
    sys.orig_argv = list(argv)
    kind, rest = argv[1], argv[1:]
    if kind == "-m":
        sys.argv, sys.path = ["-m", *argv[3:]], [os.getcwd(), *path]
        main = _main()
        import runpy

        code = _guarded(runpy._run_module_as_main, lambda: argv[2])
    elif kind == "-c":
        sys.argv, sys.path = ["-c", *argv[3:]], ["", *path]
        main = _main()
        code = _guarded(exec, lambda: compile(argv[2] + "\n", "<string>", "exec", dont_inherit=True), main)
    else:
        file = os.path.join(os.getcwd(), kind)
        sys.argv, sys.path = rest, [os.path.dirname(os.path.realpath(file)), *path]
        main = _main()
        main["__loader__"] = _loader(file)
        main["__file__"] = file
        main["__cached__"] = None
        code = _guarded(exec, lambda: _compiled(file), main)
    main = None
    _leave(code, known)


def _main():
    """The names of a fresh `__main__`."""
    module = type(sys)("__main__")
    module.__builtins__ = builtins
    module.__annotations__ = {}
    sys.modules["__main__"] = module
    return module.__dict__


def _loader(file):
    from importlib.machinery import SourceFileLoader

    return SourceFileLoader("__main__", file)


def _compiled(file):
    with open(file, "rb") as source:
        return compile(source.read(), file, "exec", dont_inherit=True)


def _guarded(run, prepare, *names):
    """Run what `prepare` gives; the exit code. Tells an error as the interpreter does, without our frames."""
    try:
        run(prepare(), *names)
    except SystemExit as end:
        code = end.code
        if code is None or isinstance(code, int):
            return (code or 0) & 0xFF
        with ignoring(Exception):
            print(code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == _OURS:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            with ignoring(Exception):
                sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        return 1
    return 0


def _leave(code, known):
    """End this process as an interpreter ends, in its order; `known` are the modules that the worker had."""
    import atexit

    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    _flush()
    own = [sys.modules.pop(name) for name in [*sys.modules] if name not in known or name == "__main__"]
    for module in [*own[-1:], *own[:-1]] if own and own[-1].__name__ == "__main__" else own:
        _forget(module)
    own = module = None
    gc.collect()
    for thing in gc.get_objects():  # a file that something of the worker's still knows
        if isinstance(thing, io.IOBase) and not thing.closed:
            with ignoring(Exception):
                thing.flush()
    os._exit(_flush() or code)


def _forget(module):
    """Let go of what a module holds, private names first, as the interpreter does."""
    names = getattr(module, "__dict__", {})
    for private in (True, False):
        for name in [*names]:
            if name != "__builtins__" and (name.startswith("_") and name[1:2] != "_") == private:
                names[name] = None


def _flush():
    """120, as the interpreter says it, when standard output could not be written."""
    failed = 0
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            failed = 120 if stream is sys.stdout else failed
    return failed


_OURS = _guarded.__code__.co_filename
