"""Start one command: spawned where that will do, else forked.

A spawn shares the worker's memory until the command is executed, so nothing of it is copied: one to two milliseconds
of processor time less than a fork. What a spawn cannot set (limits, folder, mask) the worker has set on itself.
"""

import _signal as signal  # the C module: signal.py costs 2 ms of enum a box
import os
import resource

from frames import Become, ignoring

LEAST_FILES = 64  # the worker's own need; below it only a fork can have the limit
_DEFAULTS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}  # nohup and `&` leave some ignored


def settle(config):
    """Take on every limit of the commands to come; whether that is all a spawn needs."""
    if config.open_files < LEAST_FILES or not hasattr(os, "posix_spawn"):
        return False
    try:
        os.umask(0o022)
        _limit(config)
    except (OSError, ValueError):
        return False
    return True


def start(argv, environment, cwd, ends, config):
    """The pid of the started command. Raises `Become` in a fork that is to be the command itself."""
    warm = config.warm is not None and config.warm.fits(argv, environment)
    config.arm()
    try:
        if config.spawns and not warm:
            pid = _spawn(argv, environment, cwd, ends)
            if pid:
                return pid
        pid = os.fork()
        if pid == 0:
            _become(argv, environment, cwd, ends, config, warm=warm)
        return pid
    finally:
        config.disarm()


def _spawn(argv, environment, cwd, ends):
    """The pid, or 0 for what cannot be started: a fork will say why, as a shell does."""
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)]
    try:
        os.chdir(cwd)
        program = _found(argv[0], environment)
        return os.posix_spawn(
            program, argv, environment, file_actions=actions, setsid=True, setsigmask=(), setsigdef=_DEFAULTS
        )
    except (OSError, NotImplementedError, ValueError):
        return 0
    finally:
        os.chdir("/")


def _found(name, environment):
    if b"/" in name:
        return name
    for folder in environment.get(b"PATH", os.fsencode(os.defpath)).split(b":"):
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(name)


def _become(argv, environment, cwd, ends, config, *, warm):
    """In the child: become the command, or say why not in the way a shell does."""
    try:
        os.setsid()
        for number, end in enumerate(ends):
            os.dup2(end, number)
        for signum in _DEFAULTS:
            signal.signal(signum, signal.SIG_DFL)
        os.umask(0o022)
        os.chdir(cwd)
        _limit(config)
        if warm:
            config.warm.become(argv, environment)
        os.execvpe(argv[0], argv, environment)
    except Become:
        raise
    except BaseException as error:
        with ignoring(BaseException):
            os.write(2, b"strop: cannot run %s: %s\n" % (argv[0], str(error).encode()))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _limit(config):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _lower(resource.RLIMIT_NOFILE, config.open_files)
    if config.nproc:
        _lower(resource.RLIMIT_NPROC, config.nproc)


def _lower(which, value):
    _, hard = resource.getrlimit(which)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))
