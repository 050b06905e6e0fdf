"""Starts the JVM of the process as ep4j_start of ep4j.h does, and holds the table of functions."""

import ctypes
import os
import threading
from ctypes import c_int32, c_int64, c_void_p
from typing import Any, List, NoReturn, Optional, Tuple

from . import _abi, errors, interrupts

# Codes of the start; docs/errors.md describes them.
_FORKED = 2010
_NO_HOME = 6130
_NO_JVM = 6131
_NOT_STARTED = 6132
_NO_CLASSES = 6133

_OPTIONS = (
    "-Xrs",
    "-XX:+UseSerialGC",
    "-Xmx512m",
    "--enable-native-access=ALL-UNNAMED",
    "--add-modules=jdk.incubator.vector",
)

# The jar of the C interface, before its version.
_JAR = "ep4j-c-"

# Directories of jars below EP4J_HOME: that of a bundle, and those of a clone.
_PLACES = ("lib", "ep4j-cli/target/lib", "ep4j-cli/target/quick/lib")

# The JNI invocation interface as its specification defines it: positions in its tables.
_VM_DETACH = 5
_VM_GET_ENV = 6
_VM_ATTACH_DAEMON = 7
_FIND_CLASS = 6
_EXCEPTION_OCCURRED = 15
_EXCEPTION_CLEAR = 17
_GET_OBJECT_CLASS = 31
_GET_METHOD_ID = 33
_CALL_OBJECT_METHOD_A = 36
_GET_STATIC_METHOD_ID = 113
_CALL_STATIC_LONG_METHOD_A = 134
_GET_STRING_UTF_CHARS = 169
_JNI_VERSION = 0x000A0000


class _Option(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("extra", c_void_p)]


class _Arguments(ctypes.Structure):
    _fields_ = [
        ("version", c_int32),
        ("count", c_int32),
        ("options", ctypes.POINTER(_Option)),
        ("ignore_unknown", ctypes.c_ubyte),
    ]


_lock = threading.Lock()
_api: Optional[_abi.Api] = None
_owner = 0


def enter() -> _abi.Api:
    """The table, for the start of a group or a buffer; Ctrl-C ends waits from now on."""
    api = start()
    interrupts.watch(api)
    return api


def start() -> _abi.Api:
    """The table of the process; starts the JVM, or uses its present JVM, at the first call.

    Any thread, which may end afterwards. After a failure a call tries again.

    Raises:
        SystemFailure: EP4J-6130 to 6133, as ep4j_start of ep4j.h.
        InvalidUse: EP4J-2010, in a process forked after the start.
    """
    global _api, _owner
    if _api is not None:
        interrupts.arrive()
        return _api
    with _lock:
        if _api is None:
            present = _present_jvm()
            address = _create() if present is None else _adopt(present)
            _owner = os.getpid()
            _api = _abi.Api(address)
            os.register_at_fork(after_in_child=_in_child)
    return _api


def refuse_in_child(*_: object) -> NoReturn:
    """In the place of every function of the table in a child of fork."""
    raise errors.InvalidUse(
        errors.text_of(
            _FORKED,
            f"this process was forked from {_owner}, whose JVM it cannot use: start ep4j after the"
            " fork, or start a new process, for example with multiprocessing's method 'spawn'",
        ),
        _FORKED,
    )


def _in_child() -> None:
    """Runs in each forked child: a call that enters the JVM there may wait for ever."""
    if _api is not None:
        _api.replace_all(refuse_in_child)
        interrupts.forget()


def check(status: int) -> None:
    """Raises the error of a call of this thread; 0 is success."""
    if status != 0:
        raise_last(status)


def raise_last(status: int) -> NoReturn:
    """Raises the last error of this thread, which a function has just returned."""
    error = _abi.Error()
    start().last_error(ctypes.addressof(error))
    if error.code != status:
        raise errors.Defect(errors.text_of(status, "the error has no text"), status)
    raise errors.CLASSES.get(error.kind, errors.Error)(
        error.text.decode(errors="replace"), error.code, None if error.rank < 0 else error.rank
    )


def _fail(code: int, message: str) -> NoReturn:
    raise errors.SystemFailure(errors.text_of(code, message), code)


def _present_jvm() -> Optional[int]:
    """The JVM that the process has already, or None."""
    try:
        library = ctypes.CDLL("libjvm.so", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
    except OSError:
        return None
    vm = c_void_p()
    count = c_int32()
    status = library.JNI_GetCreatedJavaVMs(ctypes.byref(vm), 1, ctypes.byref(count))
    return vm.value if status == 0 and count.value > 0 else None


def _function(table: int, position: int, result: Any, *parameters: Any) -> Any:
    """A function of a JavaVM or JNIEnv, which point to tables."""
    functions = c_void_p.from_address(table).value
    assert functions is not None
    pointer = c_void_p.from_address(functions + position * ctypes.sizeof(c_void_p)).value or 0
    return ctypes.CFUNCTYPE(result, *parameters)(pointer)


def home() -> str:
    """The installation: EP4J_HOME, the one inside this package (a wheel), or the bundle or clone whose
    directory `python` holds this package.

    Raises:
        SystemFailure: EP4J-6130, there is none.
    """
    given = os.environ.get("EP4J_HOME", "")
    if given:
        return given
    package = os.path.dirname(os.path.realpath(__file__))
    inside = os.path.join(package, "_home")
    if _find_jars(inside) is not None:
        return inside
    above = os.path.dirname(os.path.dirname(package))
    if _find_jars(above) is None:
        _fail(
            _NO_HOME,
            f"EP4J_HOME is not set, and {above}, which holds this package, is neither a bundle nor"
            " a built clone: run `./ep4j --version` in the clone, which builds it, or set EP4J_HOME"
            " to the directory of an unpacked bundle or of a built clone",
        )
    return above


def _find_jars(home: str) -> Optional[str]:
    """The directory of jars: that of a bundle, or the newer one of a clone."""
    found = None
    newest = 0.0
    for place in _PLACES:
        directory = os.path.join(home, place)
        try:
            holds = any(name.startswith(_JAR) for name in os.listdir(directory))
            changed = os.stat(directory).st_mtime
        except OSError:
            continue
        if holds and (found is None or changed > newest):
            found, newest = directory, changed
    return found


def _jars(home: str) -> str:
    directory = _find_jars(home)
    if directory is None:
        _fail(
            _NO_HOME,
            f"EP4J_HOME = {home}; it must hold lib/ep4j-c-*.jar (a bundle) or"
            " ep4j-cli/target/lib/ep4j-c-*.jar (a clone): unpack the bundle, or run"
            " `./ep4j --version` in the clone, which builds it",
        )
    if ":" in directory:
        _fail(
            _NO_HOME,
            f"EP4J_HOME = {home} has a ':', which separates the entries of a class path: move the"
            " directory to a place without one",
        )
    return directory


def version() -> str:
    """The version of the jars that the process uses or would use; does not start the JVM.

    Raises:
        SystemFailure: EP4J-6130, there are no jars.
    """
    for name in os.listdir(_jars(home())):
        if name.startswith(_JAR):
            return name[len(_JAR) : -len(".jar")]
    raise AssertionError("_jars returns a directory with this jar")


def _find_jvm(home: str) -> str:
    """The JVM's library: EP4J_JAVA_HOME, the runtime of a bundle, JAVA_HOME."""
    tail = os.path.join("lib", "server", "libjvm.so")
    variable = "EP4J_JAVA_HOME"
    java = os.environ.get(variable, "")
    if not java:
        path = os.path.join(home, "runtime", tail)
        if os.path.exists(path):
            return path
        variable = "JAVA_HOME"
        java = os.environ.get(variable, "")
    if not java:
        _fail(
            _NO_JVM,
            f"no JVM: neither EP4J_JAVA_HOME nor JAVA_HOME is set, and EP4J_HOME = {home} has no"
            " runtime: set EP4J_JAVA_HOME to the directory of a JDK 25",
        )
    path = os.path.join(java, tail)
    if not os.path.exists(path):
        _fail(
            _NO_JVM,
            f"no JVM: {variable} = {java}, and {path} does not exist: name the directory of a JDK"
            " 25",
        )
    return path


def _load(path: str) -> Any:
    """JNI_CreateJavaVM of a library."""
    reason = "it has no JNI_CreateJavaVM"
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_GLOBAL).JNI_CreateJavaVM
    except OSError as error:
        reason = str(error)
    except AttributeError:
        pass
    _fail(
        _NO_JVM, f"{path} is not the library of a JVM ({reason}): name the directory of a JDK 25"
    )


def _create() -> int:
    """Starts a JVM, which lives as long as the process; returns the address of the table."""
    place = home()
    jars = _jars(place)
    create = _load(_find_jvm(place))
    # Kernels that were compiled together with the bundle.
    kernels = os.path.join(place, "kernels")
    if os.path.exists(kernels):
        os.environ.setdefault("EP4J_CUDA_PREBUILT", kernels)
    more = os.environ.get("EP4J_JVM_OPTIONS", "")
    names = [name for name in os.listdir(jars) if name.endswith(".jar")]
    class_path = ":".join(os.path.join(jars, name) for name in names)
    options = ["-Djava.class.path=" + class_path, *_OPTIONS, *filter(None, more.split(" "))]
    vm, env, status = _create_with(create, options)
    if status != 0:
        _fail(
            _NOT_STARTED,
            f"the JVM does not start (JNI_CreateJavaVM returned {status}; it prints the reason):"
            f" correct EP4J_JVM_OPTIONS = '{more}' or free memory, and start the process again",
        )
    try:
        return _table_of(env, "the new JVM")
    finally:
        _detach(vm)


def _create_with(create: Any, options: List[str]) -> Tuple[int, int, int]:
    array = (_Option * len(options))()
    for place, option in zip(array, options):
        place.text = os.fsencode(option)
    arguments = _Arguments(_JNI_VERSION, len(options), array, 0)
    vm = c_void_p()
    env = c_void_p()
    create.restype = c_int32
    status = create(ctypes.byref(vm), ctypes.byref(env), ctypes.byref(arguments))
    return vm.value or 0, env.value or 0, status


def _detach(vm: int) -> None:
    """Ends the attachment of this thread, which may end before the process does: the JVM would
    keep what it knows of the thread. Functions of the table attach their thread until it ends.
    """
    _function(vm, _VM_DETACH, c_int32, c_void_p)(vm)


def _adopt(vm: int) -> int:
    """Uses the JVM that the process has; returns the address of the table."""
    env = c_void_p()
    get = _function(vm, _VM_GET_ENV, c_int32, c_void_p, c_void_p, c_int32)
    attached = get(vm, ctypes.byref(env), _JNI_VERSION) == 0
    attach = _function(vm, _VM_ATTACH_DAEMON, c_int32, c_void_p, c_void_p, c_void_p)
    if not attached and attach(vm, ctypes.byref(env), None) != 0:
        _fail(
            _NOT_STARTED,
            "the JVM of this process does not accept this thread: start ep4j before that JVM is"
            " shut down",
        )
    try:
        return _table_of(env.value or 0, "the JVM that this process has already")
    finally:
        if not attached:
            _detach(vm)


def _table_of(env: int, jvm: str) -> int:
    """Address of the table of the JVM's classes."""
    address = 0
    method = None
    pointer, text = c_void_p, ctypes.c_char_p
    found = _function(env, _FIND_CLASS, pointer, pointer, text)(env, b"org/ep4j/c/Abi")
    if found is not None:
        get = _function(env, _GET_STATIC_METHOD_ID, pointer, pointer, pointer, text, text)
        method = get(env, found, b"table", b"()J")
    if method is not None:
        call = _function(
            env, _CALL_STATIC_LONG_METHOD_A, c_int64, pointer, pointer, pointer, pointer
        )
        address = call(env, found, method, None)
    if address == 0:
        _fail(
            _NO_CLASSES,
            f"{jvm} does not load org.ep4j.c.Abi ({_take_exception(env)}): it needs Java 25 or"
            " newer, and the jars ep4j-c, ep4j-core and those of the engines on its class path",
        )
    size = ctypes.c_uint64.from_address(address).value
    if size < _abi.table_size():
        _fail(
            _NO_CLASSES,
            f"the jars of {jvm} have a table of {size} bytes, and this package needs"
            f" {_abi.table_size()}: use the package and the jars of one version",
        )
    return address


def _take_exception(env: int) -> str:
    """The text of the pending exception, which is cleared."""
    pointer, text = c_void_p, ctypes.c_char_p
    clear = _function(env, _EXCEPTION_CLEAR, None, pointer)
    exception = _function(env, _EXCEPTION_OCCURRED, pointer, pointer)(env)
    clear(env)
    if exception is None:
        return "unknown exception"
    kind = _function(env, _GET_OBJECT_CLASS, pointer, pointer, pointer)(env, exception)
    find = _function(env, _GET_METHOD_ID, pointer, pointer, pointer, text, text)
    method = find(env, kind, b"toString", b"()Ljava/lang/String;")
    call = _function(env, _CALL_OBJECT_METHOD_A, pointer, pointer, pointer, pointer, pointer)
    string = call(env, exception, method, None)
    characters = None
    if string is not None:
        # Not released: once a process.
        get = _function(env, _GET_STRING_UTF_CHARS, text, pointer, pointer, pointer)
        characters = get(env, string, None)
    clear(env)
    return "unknown exception" if characters is None else characters.decode(errors="replace")
