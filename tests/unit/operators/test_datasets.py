"""Tables as OpenLineage names them."""

from __future__ import annotations

import pytest

from airflow_provider_replacewhere.operators.datasets import dataset_of


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/lake/daily", "file", "/lake/daily"),
        ("file:/lake/daily/", "file", "/lake/daily"),
        ("file:///lake/a%20b", "file", "/lake/a b"),
        ("s3a://bucket/lake/daily", "s3://bucket", "lake/daily"),
        ("s3://bucket/lake/daily", "s3://bucket", "lake/daily"),
        ("gs://bucket/daily", "gs://bucket", "daily"),
        ("abfss://c@a.dfs.core.windows.net/daily", "abfss://c@a.dfs.core.windows.net", "daily"),
        ("hdfs://nn:8020/lake/daily", "hdfs://nn:8020", "/lake/daily"),
    ],
)
def test_a_table_is_the_folder_that_it_lies_in(path: str, namespace: str, name: str) -> None:
    assert dataset_of("sales.daily", path) == (namespace, name)


def test_a_table_of_which_the_folder_is_not_known_goes_by_its_name() -> None:
    assert dataset_of("sales.`daily`", None) == ("replacewhere", "sales.daily")
