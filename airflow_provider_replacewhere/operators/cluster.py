"""Where a Spark application will run, looked at before anything is started.

The Spark provider's own hook takes ``yarn`` for every connection that it cannot load; here that is an error.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import BaseHook

from airflow_provider_replacewhere.errors import RequestError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Connection

EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.spark_catalog"
DELTA_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"

LOCAL_EXAMPLE = """AIRFLOW_CONN_{id}='{{"conn_type": "spark", "host": "local[2]"}}'"""


@dataclass(frozen=True)
class Cluster:
    """A Spark master, and on which side of it the driver runs.

    :param master: as ``spark-submit --master`` takes it
    :param deploy_mode: ``client`` (the driver is a process of this worker) or ``cluster``
    """

    master: str
    deploy_mode: str

    @property
    def is_remote(self) -> bool:
        """Whether the driver sees another file system than this worker."""
        return self.deploy_mode == "cluster"


def cluster_of(conn_id: str, deploy_mode: str | None = None) -> Cluster:
    """The cluster that a connection names.

    :param conn_id: an Airflow connection of the Spark provider
    :param deploy_mode: as given to the operator; goes before the connection's
    :raises RequestError: the connection is missing or names no master, or the combination cannot run Python
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except Exception as error:  # secrets backends raise what they like; whatever it is, there is no connection
        raise RequestError(
            f"The Spark connection {conn_id!r} cannot be loaded: {error}",
            hint=f"Create it (Admin > Connections), or set for example {_example(conn_id)}. In the form of a URI,"
            " brackets are escaped: spark://local%5B2%5D.",
        ) from error
    master = _master(connection)
    if not master:
        raise RequestError(
            f"The Spark connection {conn_id!r} names no master"
            f" (type {connection.conn_type!r}, host {connection.host!r}).",
            hint=f"Put the master into its host, for example {_example(conn_id)}.",
        )
    cluster = Cluster(master, deploy_mode or connection.extra_dejson.get("deploy-mode") or "client")
    if cluster.is_remote and master.startswith("spark://"):
        raise RequestError(
            f"Spark runs no Python application with deploy mode 'cluster' on a standalone master ({master}).",
            hint="Use deploy mode 'client', or YARN or Kubernetes.",
        )
    return cluster


def check_spark_binary(conn_id: str, spark_binary: str | None, env_vars: Mapping[str, Any] | None) -> None:
    """:raises RequestError: the command that starts Spark applications is not on this worker's PATH"""
    binary = spark_binary or BaseHook.get_connection(conn_id).extra_dejson.get("spark-binary") or "spark-submit"
    path = (env_vars or {}).get("PATH") or os.environ.get("PATH", os.defpath)
    if shutil.which(binary, path=path) is None:
        raise RequestError(
            f"There is no {binary} on the PATH of this worker ({path}).",
            hint="Install Spark on the worker (pip install 'airflow-provider-replacewhere[spark]' brings pyspark's),"
            " or put the bin folder of an existing Spark on the PATH.",
        )


def with_delta(conf: Mapping[str, Any] | None, properties_file: str | None) -> dict[str, Any]:
    """The configuration, with Delta's extension and catalog where the user names none.

    Values given on the command line hide those of the properties file as a whole, so its extensions are carried over.

    :param conf: the operator's ``conf``; whatever it names stays as it is, save that Delta joins its extensions
    :param properties_file: the operator's; None: the ``spark-defaults.conf`` of this worker's Spark
    """
    given = {str(key): value for key, value in (conf or {}).items()}
    defaults = _properties(properties_file)
    extensions = [part for part in str(given.get(EXTENSIONS, defaults.get(EXTENSIONS, ""))).split(",") if part.strip()]
    if DELTA_EXTENSION not in (part.strip() for part in extensions):
        extensions.append(DELTA_EXTENSION)
    catalog = {} if CATALOG in given or CATALOG in defaults else {CATALOG: DELTA_CATALOG}
    return {**given, EXTENSIONS: ",".join(extensions), **catalog}


def _master(connection: Connection) -> str:
    # The same reading as the Spark provider's: the host alone is a whole master where it can be one.
    host = connection.host or ""
    if connection.conn_type == "spark" and host and ("://" in host or not connection.port):
        master = host
    elif connection.conn_type and host:
        master = f"{connection.conn_type}://{host}"
    else:
        return "yarn" if connection.conn_type == "yarn" else ""
    return f"{master}:{connection.port}" if connection.port else master


def _example(conn_id: str) -> str:
    return LOCAL_EXAMPLE.format(id=conn_id.upper())


def _properties(properties_file: str | None) -> dict[str, str]:
    path = Path(properties_file) if properties_file else _spark_defaults()
    if path is None or not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.strip().replace("=", " ", 1).replace("\t", " ").partition(" ")
        if key and not key.startswith(("#", "!")):
            found[key] = value.strip()
    return found


def _spark_defaults() -> Path | None:
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder) / "spark-defaults.conf"
    if home := os.environ.get("SPARK_HOME"):
        return Path(home) / "conf" / "spark-defaults.conf"
    return None
