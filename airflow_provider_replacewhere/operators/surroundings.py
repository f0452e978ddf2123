"""What on a worker decides how Spark understands a flow: its configuration, its jars, the user's files."""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseHook

from airflow_provider_replacewhere.operators.cluster import with_delta
from airflow_provider_replacewhere.operators.package import fingerprint as package_fingerprint
from airflow_provider_replacewhere.planning.fingerprint import fingerprint

if TYPE_CHECKING:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from airflow_provider_replacewhere.operators.definition import Definition
    from airflow_provider_replacewhere.operators.replace_where import ReplaceWhereOperator

# Of the environment, what Spark, Hadoop and Java read.
_PREFIXES = ("SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "HIVE_", "JAVA_", "_JAVA_", "JDK_")
# Where on this machine Spark works and how it is called, which differs from worker to worker.
_LOCAL = ("SPARK_LOCAL_", "SPARK_PUBLIC_DNS")
_NAMES = ("TZ", "LANG", "LC_ALL", "CLASSPATH")
_CONFIGURATIONS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "HIVE_CONF_DIR")


# By attribute of the operator, how it separates the files that it lists.
_FILES = {"files": ",", "py_files": ",", "_archives": ",", "jars": ",", "driver_class_path": ":"}
# Further attributes that say which code runs, or who reads. How many cores and how much memory do not matter.
_ATTRIBUTES = ("packages", "exclude_packages", "_repositories", "_deploy_mode", "principal", "proxy_user")


def fingerprint_of(operator: ReplaceWhereOperator, conn_id: str, definition: Definition) -> str | None:
    """A fingerprint of all that decides what an operator's flows mean; None where that shows only in Spark.

    :raises OSError: a part of it cannot be read
    """
    if not definition.is_complete:
        return None
    return fingerprint(
        {
            "definition": {
                "documents": [document.text for document in definition.documents],
                "arguments": asdict(definition.arguments) if definition.arguments else None,
                "time_zone": operator.time_zone,
                "null_keys": operator.null_keys,
                "root": operator.root,
                "allow_missing_columns": operator.allow_missing_columns,
            },
            "spark": settings_of(operator, conn_id),
            "package": package_fingerprint(),
        }
    )


def settings_of(operator: SparkSubmitOperator, conn_id: str) -> dict[str, Any]:
    """All that an operator, its connection and this worker tell Spark, as far as it can matter; plain JSON values.

    :raises OSError: a file that would be sent cannot be read
    """
    given: Any = operator  # some of it is called private, and some an older provider does not have
    connection = BaseHook.get_connection(conn_id)
    conf = with_delta(operator.conf, operator.properties_file)
    own = {str(name): str(value) for name, value in (operator.env_vars or {}).items()}
    binary = getattr(given, "_spark_binary", None) or connection.extra_dejson.get("spark-binary") or "spark-submit"
    return {
        "conf": {key: [str(value), *_files_named(str(value))] for key, value in conf.items()},
        "properties": local_files(operator.properties_file),
        "files": {name: local_files(getattr(given, name, None), separator) for name, separator in _FILES.items()},
        **{name: getattr(given, name, None) for name in _ATTRIBUTES},
        "connection": [connection.conn_type, connection.host, connection.port, connection.extra_dejson],
        "variables": own,
        **surroundings(binary, {**os.environ, **own}),
    }


def _files_named(value: str) -> list[str]:
    """The content of files that a setting names; most settings name none."""
    paths = (part.removeprefix("file://").removeprefix("file:") for part in value.split(","))
    return [file_content(path) for path in paths if path.startswith("/") and Path(path).is_file()]


def surroundings(binary: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The Spark that a command starts, with its configuration, and the environment it sees; plain JSON values.

    :param binary: the command that submits applications, as given
    :param environment: of the command
    """
    program = shutil.which(binary, path=environment.get("PATH", os.defpath))
    homes = list(dict.fromkeys(_homes(program, environment)))
    folders = [
        *(Path(environment[name]) for name in _CONFIGURATIONS if environment.get(name)),
        *(home / "conf" for home in homes),
    ]
    return {
        "environment": {k: v for k, v in environment.items() if _is_read_by_spark(k)},
        "program": file_content(program) if program else None,
        "jars": [_listing(home / "jars") for home in homes],
        "configurations": [_contents(folder) for folder in folders],
    }


def _is_read_by_spark(variable: str) -> bool:
    return variable in _NAMES or (variable.startswith(_PREFIXES) and not variable.startswith(_LOCAL))


def local_files(text: str | None, separator: str = ",") -> list[str]:
    """A list of files as ``spark-submit`` takes it, with the content of those that are on this worker's disks."""
    return [f"{name}={content}" for name in (text or "").split(separator) for content in _behind(name.strip())]


def file_content(path: str | os.PathLike[str]) -> str:
    """A hash of a file's content; of a folder, of the names, sizes and times of all that is in it."""
    if Path(path).is_dir():
        every = sorted(found for found in Path(path).rglob("*") if found.is_file())
        return "\n".join(f"{found}:{found.stat().st_size}:{found.stat().st_mtime_ns}" for found in every)
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _behind(name: str) -> Iterator[str]:
    path = name.removeprefix("file://").removeprefix("file:").partition("#")[0]
    if not path or "://" in path:
        yield ""
        return
    found = sorted(glob.glob(path)) if glob.has_magic(path) else [path]  # noqa: PTH207  (absolute patterns)
    for file in found:
        yield file_content(file) if Path(file).exists() else "not there"


def _homes(program: str | None, environment: Mapping[str, str]) -> Iterator[Path]:
    """Where the Spark of a command may be: told by the environment, beside the command, or pip's ``pyspark``."""
    if environment.get("SPARK_HOME"):
        yield Path(environment["SPARK_HOME"])
    if program:
        prefix = Path(program).resolve().parent.parent
        yield from (home for home in (prefix, *prefix.glob("lib/python*/site-packages/pyspark")) if _is_home(home))
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.origin is not None and _is_home(Path(spec.origin).parent):
        yield Path(spec.origin).parent


def _is_home(folder: Path) -> bool:
    return (folder / "jars").is_dir()


def _listing(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(f"{entry.name}:{entry.stat().st_size}" for entry in entries)


def _contents(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(f"{file.name}={file_content(file)}" for file in folder.iterdir() if file.is_file())
