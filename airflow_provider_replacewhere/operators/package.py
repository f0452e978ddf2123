"""The code that travels with a Spark application, so that the cluster needs no installation of ours.

It is one zip with the driver's floors of this package and sqlglot, and a launcher of three lines. Both are built once
for each version and content, and kept in a folder that only this user can read.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import py_compile
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_replacewhere import __version__
from airflow_provider_replacewhere.errors import SubmitError

PACKAGE = "airflow_provider_replacewhere"
DRIVER_FLOORS = ("__init__.py", "text.py", "errors.py", "predicates", "flows", "planning", "spark")
APPLICATION = "replacewhere_application.py"
ARCHIVE = "replacewhere_code.zip"

LAUNCHER = f"""\
import sys

from {PACKAGE}.spark.job import main

sys.exit(main(sys.argv[1:]))
"""

# Zip members carry a time stamp; a fixed one makes equal code equal bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CodePackage:
    """What ``spark-submit`` gets: the application file, and the archive for ``--py-files``."""

    application: Path
    archive: Path


def code_package(cache: Path | None = None) -> CodePackage:
    """The code of this version, built if it is not there yet.

    Several tasks may ask at once: each writes files of its own and moves them into place in one step.

    :param cache: the folder to keep it in; by default one of this user's below the system's temporary folder
    :raises SubmitError: the folder cannot be written
    """
    try:
        home = (cache or private_cache()) / fingerprint()
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        package = CodePackage(home / APPLICATION, home / ARCHIVE)
        # The launcher lies beside the archive and nothing else: Spark puts the application's own folder first on
        # sys.path, where a file of ours next to it could hide a module of the same name.
        _keep(package.application, lambda path: path.write_text(LAUNCHER))
        _keep(package.archive, _write_archive)
    except OSError as error:
        raise SubmitError(
            f"The code for the Spark application cannot be written: {error}.",
            hint=f"Give the worker a writable temporary folder (TMPDIR; now {tempfile.gettempdir()}).",
        ) from error
    return package


def _keep(path: Path, write: Callable[[Path], object]) -> None:
    if path.exists():
        path.touch()  # temporary folders are cleaned by age
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    os.close(handle)
    try:
        write(Path(name))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def private_cache() -> Path:
    """A folder that only this user can write, for what can be made again."""
    folder = Path(tempfile.gettempdir()) / f"{PACKAGE}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    # In a shared temporary folder someone else could have made it first, with code of theirs inside.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-"))
    return folder


def fingerprint() -> str:
    """A hash of all the code that travels."""
    digest = hashlib.sha256()
    for part in (__version__, importlib.metadata.version("sqlglot"), sys.implementation.cache_tag, LAUNCHER):
        digest.update(f"{part}\0".encode())
    for name, source in _our_sources():
        digest.update(f"{name}\0".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _write_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as scratch:
        for name, source in (*_our_sources(), *_sources_of("sqlglot")):
            _add(archive, name, source.read_bytes())
            # Byte code saves the driver half a second of compiling; another Python version ignores it.
            compiled = py_compile.compile(
                str(source),
                cfile=str(Path(scratch) / "module.pyc"),
                dfile=name,
                doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )
            _add(archive, f"{name}c", Path(str(compiled)).read_bytes())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    member = zipfile.ZipInfo(name, EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    archive.writestr(member, content)


def _our_sources() -> list[tuple[str, Path]]:
    return [
        (name, source)
        for name, source in _sources_of(PACKAGE)
        if name.removeprefix(f"{PACKAGE}/").split("/")[0] in DRIVER_FLOORS
    ]


def _sources_of(package: str) -> Iterator[tuple[str, Path]]:
    # The package is found, not imported: the worker has no other need of sqlglot.
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SubmitError(
            f"The package {package} has no folder of its own to send to Spark.",
            hint=f"Install {package} from its wheel, unpacked.",
        )
    root = Path(next(iter(spec.submodule_search_locations)))
    for source in sorted(root.rglob("*.py")):
        yield f"{package}/{source.relative_to(root).as_posix()}", source
