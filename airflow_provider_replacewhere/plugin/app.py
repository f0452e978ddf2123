"""The page's web application: each address once for people and once, below ``/api``, for programs. It only reads.

It holds no access rules of its own: whoever mounts it says who may see it, and that holds for every address, the
stylesheet included.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from airflow_provider_replacewhere.errors import HistoryRowError, ReplaceWhereError, RequestError
from airflow_provider_replacewhere.history.view import HistoryView
from airflow_provider_replacewhere.plugin.reading import Filter, NotFoundError, Reading
from airflow_provider_replacewhere.plugin.rendering import render

log = logging.getLogger(__name__)

ASSETS = Path(__file__).with_name("assets")
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# Nothing from elsewhere, nothing inline: what a predicate or an error holds can never become code.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Facts = Callable[[Reading, Mapping[str, str]], dict[str, Any]]


def create_app(open_ledger: Callable[[], HistoryView], dependencies: Sequence[Any] = ()) -> FastAPI:
    """The application.

    :param open_ledger: gives the ledger, anew for each request
    :param dependencies: FastAPI's, for every address: who may see it
    """
    app = FastAPI(
        title="REPLACE WHERE", dependencies=list(dependencies), docs_url=None, redoc_url=None, openapi_url=None
    )

    def answer(name: str, facts: Facts) -> None:
        # Not async: FastAPI runs them in threads, for the database blocks.
        def page(request: Request) -> Response:
            with _readable():
                reading = Reading(open_ledger())
                given = dict(request.query_params)
                found = {**facts(reading, given), "ledger": reading.ledger, "given": given}
                return _html(request, f"{name}.html", found)

        def api(request: Request) -> Response:
            with _readable():
                return JSONResponse(facts(Reading(open_ledger()), dict(request.query_params)))

        app.add_api_route("/" if name == "tables" else f"/{name}", page, methods=["GET"])
        app.add_api_route(f"/api/{name}", api, methods=["GET"])

    for name, facts in FACTS.items():
        answer(name, facts)

    def backfill(request: Request) -> Response:
        with _readable():
            given = {"target": "", **request.query_params}
            return _html(request, "backfill.html", {"given": given, "ledger": open_ledger().url})

    def asset(name: str) -> Response:
        file = ASSETS / name
        # Only what is there by name: the listing is the list of what may be asked for.
        if file.name not in {each.name for each in ASSETS.iterdir()} or file.suffix not in TYPES:
            raise NotFoundError(f"There is no {name}.")
        return Response(file.read_bytes(), media_type=TYPES[file.suffix])

    def nothing(request: Request) -> Response:
        raise NotFoundError(f"There is no page {request.url.path}.")

    app.add_api_route("/backfill", backfill, methods=["GET"])
    app.add_api_route("/assets/{name}", asset, methods=["GET"])
    app.add_api_route("/{path:path}", nothing, methods=["GET"])
    app.add_exception_handler(ReplaceWhereError, _explain)
    app.middleware("http")(_with_headers)
    return app


# -- what each address says


def _tables(reading: Reading, given: Mapping[str, str]) -> dict[str, Any]:
    page = given.get("page") or "1"
    if not (page.isascii() and page.isdecimal()) or len(page) > 6:
        raise RequestError(f"The page is {page!r}.", hint="Give a number.")
    return reading.tables(int(page))


def _table(reading: Reading, given: Mapping[str, str]) -> dict[str, Any]:
    return reading.table(
        _target(given),
        unit=given.get("unit") or None,
        column=given.get("column") or None,
        first=given.get("from") or None,
        end=given.get("to") or None,
    )


def _runs(reading: Reading, given: Mapping[str, str]) -> dict[str, Any]:
    return reading.runs(Filter.of(given))


def _run(reading: Reading, given: Mapping[str, str]) -> dict[str, Any]:
    run = given.get("run") or ""
    # Longer digits are no number of a run, and no database takes them.
    if not run or (run.isdecimal() and (not run.isascii() or len(run) > 18)):
        raise NotFoundError("No run is named." if not run else f"There is no run {run}.")
    return reading.run(run)


def _definitions(reading: Reading, given: Mapping[str, str]) -> dict[str, Any]:
    return reading.definitions(_target(given))


def _activity(reading: Reading, _: Mapping[str, str]) -> dict[str, Any]:
    return reading.activity()


FACTS: Mapping[str, Facts] = {
    "tables": _tables,
    "table": _table,
    "runs": _runs,
    "run": _run,
    "definitions": _definitions,
    "activity": _activity,
}


def _target(given: Mapping[str, str]) -> str:
    """:raises NotFoundError: none is named"""
    target = (given.get("target") or "").strip()
    if not target:
        raise NotFoundError("No table is named.")
    return target


# -- answers


@contextmanager
def _readable() -> Iterator[None]:
    """A row that was changed by hand may fail in any way; whoever looks is told so, and the log has the rest."""
    try:
        yield
    except ReplaceWhereError:
        raise
    except Exception as error:
        log.exception("The ledger holds something that cannot be shown.")
        raise HistoryRowError(
            f"The ledger holds something that cannot be shown: {type(error).__name__}.",
            hint="A row was changed by hand, or is damaged; the web server's log says where it shows.",
        ) from error


def _html(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    return HTMLResponse(render(template, str(request.scope.get("root_path", "")), values), status)


async def _explain(request: Request, error: Exception) -> Response:
    """What went wrong, in words: the ledger does not answer, its schema is too new, there is no such run."""
    assert isinstance(error, ReplaceWhereError)
    status = 404 if isinstance(error, NotFoundError) else 400 if isinstance(error, RequestError) else 503
    if status == 503:
        log.warning("The ledger cannot be shown: %s", error)
    if request.url.path.removeprefix(str(request.scope.get("root_path", ""))).startswith("/api/"):
        return JSONResponse({"error": error.to_json()}, status)
    values = {"message": error.message, "hint": error.hint, "status": status, "kind": type(error).__name__}
    return _html(request, "error.html", values, status)


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response
