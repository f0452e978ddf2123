"""The functions that a predicate may call: Spark's built-in ones that give the same answer for the same row."""

from __future__ import annotations

CLOCK = frozenset({"current_date", "curdate", "current_timestamp", "now", "localtimestamp", "current_timezone"})
"""Functions of the run's clock, without arguments."""

NON_DETERMINISTIC = frozenset({"rand", "random", "randn", "uuid", "randstr", "uniform", "shuffle"})
"""Without a column in their arguments they are evaluated once for each run; with one they are refused."""

_SESSION = ("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "version")
_READING = (
    "monotonically_increasing_id",
    "spark_partition_id",
    "input_file_name",
    "input_file_block_start",
    "input_file_block_length",
)
REFUSED = {
    **dict.fromkeys(_SESSION, "it depends on who runs the flow and where"),
    **dict.fromkeys(_READING, "it differs from one reading of a row to the next"),
    **dict.fromkeys(("java_method", "reflect", "try_reflect"), "it runs code"),
    **dict.fromkeys(("raise_error", "assert_true"), "it decides nothing about a row"),
    **dict.fromkeys(("current_time",), "the TIME type is not supported"),
    **dict.fromkeys(
        ("exists", "filter", "transform", "aggregate", "reduce", "forall", "array_sort", "zip_with", "map_filter"),
        "functions that take a function are not supported",
    ),
}

_AGGREGATES = """any any_value approx_count_distinct approx_percentile array_agg avg bit_and bit_or bit_xor bool_and
    bool_or collect_list collect_set corr count count_if covar_pop covar_samp every first first_value grouping
    grouping_id histogram_numeric kurtosis last last_value listagg max max_by mean median min min_by mode percentile
    percentile_approx percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
    skewness some std stddev stddev_pop stddev_samp string_agg sum try_avg try_sum var_pop var_samp variance"""
_WINDOW = "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number"
_GENERATORS = "explode explode_outer inline inline_outer posexplode posexplode_outer stack json_tuple"

_TIME = """add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc
    dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear from_unixtime from_utc_timestamp hour
    last_day make_date make_dt_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute
    month monthname months_between next_day quarter second timestamp_micros timestamp_millis timestamp_seconds
    timestampadd timestampdiff to_date to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp trunc try_to_date try_to_timestamp unix_date unix_micros unix_millis unix_seconds unix_timestamp
    weekday weekofyear year"""
_NUMBER = """abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv cos cosh cot
    csc degrees e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod
    positive pow power radians rint round sec shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh
    try_add try_divide try_mod try_multiply try_subtract unhex width_bucket"""
_TEXT = """ascii base64 bit_length btrim char char_length character_length chr concat concat_ws contains decode elt
    encode endswith find_in_set format_number format_string initcap instr lcase left len length levenshtein locate lower
    lpad ltrim luhn_check mask octet_length overlay position printf regexp regexp_count regexp_extract regexp_instr
    regexp_like regexp_replace regexp_substr repeat replace reverse right rpad rtrim soundex space split split_part
    startswith substr substring substring_index to_binary to_char to_number to_varchar translate trim try_to_binary
    try_to_number ucase unbase64 upper url_decode url_encode parse_url"""
_CHOICE = "coalesce equal_null if ifnull isnan isnotnull isnull nanvl nullif nullifzero nvl nvl2 zeroifnull typeof"
_HASH = "crc32 hash md5 sha sha1 sha2 xxhash64"
_NESTED = """array array_contains array_distinct array_join array_max array_min array_position array_size arrays_overlap
    cardinality element_at get get_json_object map_contains_key map_keys map_values named_struct size slice struct
    try_element_at"""

ALLOWED = frozenset(" ".join((_TIME, _NUMBER, _TEXT, _CHOICE, _HASH, _NESTED)).split()) | CLOCK | NON_DETERMINISTIC

_BOOLEAN = """array_contains arrays_overlap contains endswith equal_null isnan isnotnull isnull luhn_check
    map_contains_key regexp regexp_like startswith"""

AGGREGATES = frozenset(_AGGREGATES.split())
WINDOW = frozenset(_WINDOW.split())
GENERATORS = frozenset(_GENERATORS.split())
BOOLEAN = frozenset(_BOOLEAN.split())
"""Allowed functions whose result is a BOOLEAN."""
