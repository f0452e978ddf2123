"""Spark's expression grammar: tokens to a tree, grouped as Spark groups them (``SqlBaseParser.g4``, 4.x)."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial

from airflow_provider_replacewhere.errors import PredicateError
from airflow_provider_replacewhere.predicates import functions
from airflow_provider_replacewhere.predicates.cursor import Cursor, operator_of
from airflow_provider_replacewhere.predicates.literals import interval_of, interval_of_units, number
from airflow_provider_replacewhere.predicates.nodes import Call, Cast, Column, Field, Literal, Node
from airflow_provider_replacewhere.predicates.tokens import Token, tokenize
from airflow_provider_replacewhere.text import Span

# Loosest first. All are left-associative; a predicate (IS NULL, IN, …) takes a whole comparison as its operand.
_LEVELS = (
    {"=": "=", "==": "=", "<=>": "<=>", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="},
    {"|": "|"},
    {"^": "^"},
    {"&": "&"},
    {"<<": "<<", ">>": ">>", ">>>": ">>>"},
    {"+": "+", "-": "-", "||": "||"},
    {"*": "*", "/": "/", "%": "%", "DIV": "div"},
)
_BINARY = {word: (level, name) for level, names in enumerate(_LEVELS) for word, name in names.items()}
_MOST_LINKS = 200
_UNARY = {"-": "negative", "+": "positive", "~": "~"}

_RESERVED_WORDS = """AND OR NOT IN IS LIKE ILIKE RLIKE REGEXP BETWEEN CASE WHEN THEN ELSE END NULL TRUE FALSE CAST
    TRY_CAST ESCAPE AS FROM SELECT WHERE ORDER GROUP HAVING LIMIT UNION DISTINCT COLLATE"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_TYPES = {
    "boolean": "boolean",
    **dict.fromkeys(("tinyint", "byte"), "tinyint"),
    **dict.fromkeys(("smallint", "short"), "smallint"),
    **dict.fromkeys(("int", "integer"), "int"),
    **dict.fromkeys(("bigint", "long"), "bigint"),
    **dict.fromkeys(("float", "real"), "float"),
    "double": "double",
    **dict.fromkeys(("decimal", "dec", "numeric"), "decimal"),
    "string": "string",
    "binary": "binary",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp_ltz"), "timestamp"),
    "timestamp_ntz": "timestamp_ntz",
}
_CONSTRUCTORS = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_CAST_FUNCTIONS = frozenset(_TYPES) - {"byte", "short", "integer", "long", "real", "dec", "numeric"}
_UNITS = "YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND"
_DATE_UNITS = frozenset(_UNITS.split())
_WITH_UNIT = {
    **dict.fromkeys(("timestampadd", "dateadd", "date_add"), "timestampadd"),
    **dict.fromkeys(("timestampdiff", "datediff", "date_diff"), "timestampdiff"),
}
_BARE_CALLS = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "CURRENT_TIME"})


def read(span: Span) -> Node:
    """The tree of one whole expression.

    :raises PredicateError: the text is no expression that a predicate may hold; the place is underlined
    """
    try:
        return _Reader(span, tokenize(span)).whole()
    except RecursionError:
        raise PredicateError("The predicate is nested too deeply.", hint="Write it flatter.", span=span) from None


class _Reader(Cursor):
    """One method for each level of the grammar."""

    # -- from the loosest to the tightest

    def whole(self) -> Node:
        if len(self.tokens) == 1:
            raise PredicateError(
                "The predicate is empty.",
                hint="Say which rows are replaced, such as: day >= date_sub(current_date(), 7).",
                span=self.span,
            )
        node = self.disjunction()
        if self.now.kind != "end":
            raise self.surprise()
        return node

    def disjunction(self) -> Node:
        return self.chain("OR", self.conjunction)

    def conjunction(self) -> Node:
        return self.chain("AND", self.negation)

    def chain(self, word: str, operand: Callable[[], Node]) -> Node:
        start = self.now.start
        operands = [operand()]
        while self.takes(word):
            operands.append(operand())
        return operands[0] if len(operands) == 1 else self.placed(Call(word.lower(), tuple(operands)), start)

    def negation(self) -> Node:
        start = self.now.start
        if self.takes("NOT") or self.takes("!"):
            return self.placed(Call("not", (self.negation(),)), start)
        return self.predicated()

    def predicated(self) -> Node:
        start = self.now.start
        operand = self.binary()
        found = self.test(operand)
        return operand if found is None else self.placed(found, start)

    def test(self, operand: Node) -> Node | None:
        if self.takes("IS"):
            negated = self.takes("NOT")
            if self.takes("DISTINCT", "FROM"):
                return _negated(Call("<=>", (operand, self.binary())), not negated)
            return _negated(self.is_test(operand), negated)
        negated = self.now.word == "NOT"
        word = (self.next if negated else self.now).word
        if word not in ("BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"):
            return None
        self.position += 1 + negated
        if word == "BETWEEN":
            return _negated(self.between(operand), negated)
        if word == "IN":
            return _negated(Call("in", (operand, *self.list_of_values())), negated)
        if word in ("RLIKE", "REGEXP"):
            return _negated(Call("rlike", (operand, self.binary())), negated)
        return self.like(operand, word.lower(), negated)

    def is_test(self, operand: Node) -> Node:
        if self.takes("NULL") or self.takes("UNKNOWN"):
            return Call("is null", (operand,))
        if self.takes("TRUE"):
            return Call("is true", (operand,))
        if self.takes("FALSE"):
            return Call("is false", (operand,))
        raise self.surprise("NULL, TRUE, FALSE or DISTINCT FROM should stand here")

    def between(self, operand: Node) -> Node:
        if self.now.word in ("SYMMETRIC", "ASYMMETRIC") and self.next.text not in ("AND", "and"):
            raise self.fail(f"BETWEEN {self.now.word} is not Spark SQL.", "Write the two bounds in order.")
        low = self.binary()
        self.expect("AND")
        return Call("between", (operand, low, self.binary()))

    def list_of_values(self) -> tuple[Node, ...]:
        self.expect("(")
        if self.takes(")"):
            raise self.fail("The list of IN is empty.", "Name at least one value.", at=self.tokens[self.position - 1])
        values = self.separated(self.disjunction)
        self.expect(")")
        return values

    def like(self, operand: Node, name: str, negated: bool) -> Node:
        if self.next.text == "(" and self.now.word in ("ANY", "SOME", "ALL"):
            # NOT LIKE ANY means that some pattern does not match, which is NOT (LIKE ALL); and the other way round.
            every = (self.take().word == "ALL") != negated
            return _negated(Call(f"{name} {'all' if every else 'any'}", (operand, *self.list_of_values())), negated)
        pattern = self.binary()
        escape: tuple[Node, ...] = ()
        if self.takes("ESCAPE"):
            token = self.take()
            if token.kind != "string" or len(token.value) != 1:
                raise self.fail("The escape character is not one character in quotes.", at=token)
            escape = (Literal("string", token.value, start=token.start, end=token.end),)
        return _negated(Call(name, (operand, pattern, *escape)), negated)

    def binary(self, loosest: int = 0) -> Node:
        start = self.now.start
        node = self.unary()
        links = 0
        while (operator := _BINARY.get(self.now.word or operator_of(self.now))) and operator[0] >= loosest:
            if (links := links + 1) > _MOST_LINKS:
                raise self.fail(f"More than {_MOST_LINKS} operators in a row.", "Put parentheses around parts of it.")
            self.take()
            node = self.placed(Call(operator[1], (node, self.binary(operator[0] + 1))), start)
        return node

    def unary(self) -> Node:
        token = self.now
        if operator_of(token) == "-" and self.next.kind == "number":
            self.take()
            return self.postfix(self.number(negative=True), token.start)
        if name := _UNARY.get(operator_of(token)):
            self.take()
            return self.placed(Call(name, (self.unary(),)), token.start)
        return self.postfix(self.primary(), token.start)

    def postfix(self, node: Node, start: int) -> Node:
        node = self.placed(node, start)
        while True:
            if self.takes("."):
                name = self.name()
                node = Column((*node.parts, name)) if isinstance(node, Column) else Field(node, name)
            elif self.takes("["):
                node = Call("[]", (node, self.binary()))
                self.expect("]")
            elif self.takes("::"):
                node = Cast(node, self.type_name())
            elif self.now.word == "COLLATE":
                raise self.fail(
                    "COLLATE is not supported in a predicate.",
                    "Compare lower(column), or declare the column's collation.",
                )
            else:
                return node
            node = self.placed(node, start)

    # -- what stands alone

    def primary(self) -> Node:
        token = self.now
        match token.kind:
            case "number":
                return self.number()
            case "string":
                return self.strings()
            case "quoted":
                return self.column()
            case "word":
                return self.word()
        if self.takes("("):
            items = self.separated(self.disjunction)
            self.expect(")")
            return items[0] if len(items) == 1 else Call("row", items)
        raise self.surprise()

    def number(self, *, negative: bool = False) -> Node:
        token = self.take()
        return self.checked(lambda: number(token.text, negative=negative), token.start)

    def strings(self) -> Node:
        value = ""
        while self.now.kind == "string":
            value += self.take().value
        return Literal("string", value)

    def word(self) -> Node:
        token = self.now
        if self.next.kind == "string" and token.word not in _RESERVED:
            return self.typed_literal()
        if token.word == "INTERVAL" and (self.next.kind in ("number", "string") or self.next.text in ("-", "+")):
            self.take()
            return self.interval()
        match token.word:
            case "NULL":
                self.take()
                return Literal("null", None)
            case "TRUE" | "FALSE":
                self.take()
                return Literal("boolean", token.word == "TRUE")
            case "CASE":
                self.take()
                return self.case()
        if self.next.text == "(" and (token.word not in _RESERVED or token.word in ("CAST", "TRY_CAST")):
            return self.call()
        if token.word in _RESERVED:
            raise self.surprise()
        if token.word in _BARE_CALLS:
            self.take()
            return self.known(token.text.lower(), token, ())
        return self.column()

    def column(self) -> Node:
        return Column((self.name(),))

    def name(self) -> str:
        token = self.now
        if token.kind not in ("word", "quoted"):
            raise self.surprise("A column's name should stand here")
        if token.kind == "word" and token.text[:1].isdigit():
            raise self.fail(f"{token.text} is no number.", f"If it is a column's name, write `{token.text}`.")
        if self.next.text == "." and self.tokens[min(self.position + 2, len(self.tokens) - 1)].text == "*":
            raise self.fail("A * has no place in a predicate.", "Name the columns.")
        self.take()
        return token.value

    def typed_literal(self) -> Node:
        token = self.take()
        start = token.start
        text = self.take()
        if token.word in _CONSTRUCTORS:
            return Cast(Literal("string", text.value, start=text.start, end=text.end), _TYPES[token.text.lower()])
        if token.word == "INTERVAL":
            if self.now.word.rstrip("S") in (
                "YEAR",
                "MONTH",
                "WEEK",
                "DAY",
                "HOUR",
                "MINUTE",
                "SECOND",
                "MILLISECOND",
                "MICROSECOND",
            ):
                self.position -= 1
                return self.interval()
            return self.checked(lambda: interval_of_units(text.value.split()), start)
        if token.word == "X":
            try:
                return Literal("binary", bytes.fromhex(text.value.rjust(len(text.value) + len(text.value) % 2, "0")))
            except ValueError:
                raise self.fail("This is no hexadecimal number.", at=text) from None
        raise self.fail(
            f"A literal of type {token.text} is not supported.",
            "Supported are DATE, TIMESTAMP, TIMESTAMP_NTZ, INTERVAL and X in front of a string.",
            at=text,
            since=start,
        )

    def interval(self) -> Node:
        start = self.now.start
        words: list[str] = []
        while True:
            sign = self.take().text if self.now.text in ("-", "+") else ""
            if self.now.kind not in ("number", "string"):
                break
            words.append(sign + self.take().value)
            words.append(self.take().text)
            if self.takes("TO"):
                bounds = words[0], words[1].upper(), self.take().word
                return self.checked(partial(interval_of, *bounds), start)
            if self.now.kind not in ("number", "string") and not (
                self.now.text in ("-", "+") and self.next.kind in ("number", "string") and self.is_unit(2)
            ):
                break
        return self.checked(lambda: interval_of_units(words), start)

    def is_unit(self, ahead: int) -> bool:
        token = self.tokens[min(self.position + ahead, len(self.tokens) - 1)]
        return token.word.rstrip("S") in _DATE_UNITS

    def case(self) -> Node:
        """The operand, if there is one, is compared by ``=``, which is what Spark makes of it."""
        operand = None if self.now.word == "WHEN" else self.disjunction()
        args: list[Node] = []
        while self.takes("WHEN"):
            when = self.disjunction()
            self.expect("THEN")
            args += [
                when if operand is None else Call("=", (operand, when), start=when.start, end=when.end),
                self.disjunction(),
            ]
        if not args:
            raise self.surprise("WHEN should stand here")
        if self.takes("ELSE"):
            args.append(self.disjunction())
        self.expect("END")
        return Call("case", tuple(args))

    def call(self) -> Node:
        token = self.take()
        name = token.text.lower()
        self.expect("(")
        if name in ("cast", "try_cast"):
            operand = self.disjunction()
            self.expect("AS")
            type_ = self.type_name()
            self.expect(")")
            return Cast(operand, type_, lenient=name == "try_cast")
        if name == "extract":
            field = self.take()
            self.expect("FROM")
            source = self.binary()
            self.expect(")")
            return Call("date_part", (Literal("string", field.value.upper(), start=field.start, end=field.end), source))
        if name in ("exists", "in") and self.now.word in ("SELECT", "WITH"):
            raise self.surprise()
        unit = ""
        if name in _WITH_UNIT and self.now.word in _DATE_UNITS and self.next.text == ",":
            name, unit = _WITH_UNIT[name], self.take().word
            self.take()
        if name == "trim" and self.now.word in ("BOTH", "LEADING", "TRAILING"):
            raise self.fail(
                f"trim({self.now.word} … FROM …) is not supported in a predicate.", "Use btrim, ltrim or rtrim."
            )
        if self.now.word == "DISTINCT":
            raise self.fail("An aggregate function has no value for a single row.", "Leave it to the query.")
        if operator_of(self.now) == "*":
            raise self.surprise()
        args = () if self.now.text == ")" else self.separated(self.disjunction)
        if self.now.word in ("FROM", "IN", "PLACING"):
            raise self.fail(
                f"{token.text}(… {self.now.word} …) is not supported in a predicate.",
                "Use the form with commas.",
            )
        self.expect(")")
        return self.known(name, token, args, unit)

    def known(self, name: str, token: Token, args: tuple[Node, ...], unit: str = "") -> Node:
        if self.now.word in ("OVER", "FILTER", "WITHIN"):
            raise self.surprise()
        if name in functions.AGGREGATES:
            raise self.fail(
                f"{name} is an aggregate function: it has no value for a single row.",
                "Leave it to the query.",
                at=token,
            )
        if name in functions.WINDOW | functions.GENERATORS:
            raise self.fail(f"{name} has no value for a single row.", "Leave it to the query.", at=token)
        if name in functions.REFUSED:
            raise self.fail(f"{name} has no place in a predicate: {functions.REFUSED[name]}.", at=token)
        if name in _CAST_FUNCTIONS and len(args) == 1:
            return Cast(args[0], "decimal(10,0)" if name == "decimal" else name)
        if name not in functions.ALLOWED:
            near = get_close_matches(name, sorted(functions.ALLOWED), n=1)
            raise self.fail(
                f"{token.text} is no function that a predicate may call.",
                f"Did you mean {near[0]}?" if near else "Allowed are Spark's built-in functions of a single row.",
                at=token,
            )
        return Call(name, args, unit)

    def type_name(self) -> str:
        token = self.take()
        name = _TYPES.get(token.text.lower())
        if name is None:
            raise self.fail(
                f"A cast to {token.text} is not supported in a predicate.",
                f"Supported are {', '.join(sorted({*_TYPES.values()}))}.",
                at=token,
            )
        if name != "decimal" or not self.takes("("):
            return "decimal(10,0)" if name == "decimal" else name
        sizes = [self.take().text]
        if self.takes(","):
            sizes.append(self.take().text)
        self.expect(")")
        if not all(size.isdigit() for size in sizes):
            raise self.fail("A DECIMAL has a precision and a scale.", "Write DECIMAL(10, 2).", at=token)
        return f"decimal({sizes[0]},{sizes[1] if len(sizes) > 1 else '0'})"


def _negated(node: Node, negated: bool) -> Node:
    return Call("not", (node,), start=node.start, end=node.end) if negated else node
