"""Applications that are killed start as quickly as they can."""

from tests.jvm import let_java_start_quickly

let_java_start_quickly()
