// The map of a table under the pointer and the keys, and links that lead out of the frame that Airflow shows this in.
"use strict";

(() => {
  // -- links to Airflow's own pages

  // Airflow's frame may not send its parent elsewhere; a link that stands in the parent's document may.
  function leave(address) {
    if (window.parent === window) {
      window.location.assign(address);
      return;
    }
    const outside = window.parent.document;
    const link = outside.createElement("a");
    link.href = address;
    link.hidden = true;
    outside.body.append(link);
    link.click();
    link.remove();
  }
  window.leaveToAirflow = leave;

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-airflow]");
    if (link && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
      event.preventDefault();
      leave(link.getAttribute("href"));
    }
  });

  // -- the map

  const place = document.getElementById("map");
  const detail = document.getElementById("detail");
  const source = document.getElementById("map-data");
  if (!place || !detail || !source) {
    return;
  }
  const data = JSON.parse(source.textContent);
  const grids = [...place.querySelectorAll("[role=grid]")];
  const cells = new Map();
  for (const element of place.querySelectorAll("[data-cell]")) {
    cells.set(`${element.dataset.row}:${element.dataset.cell}`, element);
  }
  const SLUG = (state) => state.replaceAll(" ", "-");
  let selected = null; // {row, from, to}: cells of one row, both ends included
  let focused = null;

  function known(element) {
    const row = Number(element.dataset.row);
    const number = Number(element.dataset.cell);
    const [label, start, end, state, facts, shares] = data.rows[row].cells[number];
    return { row, number, label, start, end, state, facts: facts.map((n) => data.facts[n]), shares };
  }

  function text(tag, content, className) {
    const made = document.createElement(tag);
    if (className) {
      made.className = className;
    }
    made.append(content);
    return made;
  }

  function badge(state, more) {
    const made = text("span", "", `state ${SLUG(state)}`);
    made.append(document.createElement("i"), more ? `${state} ${more}` : state);
    return made;
  }

  function address(base, query) {
    const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
    const made = new URLSearchParams(kept.map(([name, value]) => [name, String(value)]));
    return `${base}?${made}`;
  }

  function versions(sources) {
    return Object.entries(sources).map(([name, version]) => `${name} at version ${version}`).join(", ");
  }

  function factPart(fact) {
    const part = text("div", "", "fact");
    part.append(badge(fact.state), text("p", fact.why));
    const list = document.createElement("dl");
    const add = (name, value) => list.append(text("dt", name), text("dd", value));
    if (fact.run !== null) {
      const link = text("a", `run ${fact.run}`);
      link.href = address(place.dataset.run, { run: fact.run });
      add("Known from", link);
    } else if (fact.run_id) {
      add("Known from", fact.run_id);
    }
    if (fact.at) {
      add("At", fact.at.replace("T", " ").replace("+00:00", " UTC"));
    }
    if (Object.keys(fact.sources).length) {
      add("Over", versions(fact.sources));
    }
    part.append(list);
    return part;
  }

  function heading(row, label) {
    const name = data.rows.length > 1 ? `${data.rows_by} ${data.rows[row].label}, ` : "";
    return text("h3", `${name}${label}`);
  }

  function sharesPart(shares) {
    const list = text("ul", "", "shares");
    for (const [state, share] of Object.entries(shares)) {
      const item = document.createElement("li");
      item.append(badge(state, `${Math.round(share * 1000) / 10} %`));
      list.append(item);
    }
    return list;
  }

  function showCell(cell) {
    // A range stays at the top while the pointer looks at other cells, so that its link can be reached.
    const isRange = selected && selected.from !== selected.to;
    detail.replaceChildren(...(isRange ? [rangePart()] : []), heading(cell.row, cell.label));
    if (cell.shares) {
      detail.append(sharesPart(cell.shares));
    }
    cell.facts.slice(0, 4).forEach((fact) => detail.append(factPart(fact)));
    if (cell.facts.length > 4) {
      detail.append(text("p", `and ${cell.facts.length - 4} more`, "muted"));
    }
    if (!isRange) {
      detail.append(backfillLink(cell.row, cell.number, cell.number));
    }
  }

  function showSelected() {
    if (selected.from === selected.to) {
      showCell(known(cells.get(`${selected.row}:${selected.from}`)));
    } else {
      detail.replaceChildren(rangePart());
    }
  }

  function rangePart() {
    const { row, from, to } = selected;
    const chosen = data.rows[row].cells.slice(from, to + 1);
    const count = new Map();
    chosen.forEach((cell) => count.set(cell[3], (count.get(cell[3]) || 0) + 1));
    const list = text("ul", "", "shares");
    for (const [state, number] of count) {
      const item = document.createElement("li");
      item.append(badge(state, `in ${number}`));
      list.append(item);
    }
    const part = text("div", "", "range");
    part.append(
      heading(row, `${chosen[0][0]} to ${chosen[chosen.length - 1][0]}`),
      text("p", `${chosen.length} ${data.unit}s selected`, "muted"),
      list,
      backfillLink(row, from, to),
    );
    return part;
  }

  function backfillLink(row, from, to) {
    const first = data.rows[row].cells[from];
    const last = data.rows[row].cells[to];
    const equal = data.rows.length > 1 ? data.rows[row].equals : null;
    const link = text("a", from === to ? "Backfill this…" : "Backfill this range…", "button primary");
    link.id = "backfill-range";
    link.href = address(place.dataset.backfill, {
      target: data.target,
      flow: data.flow,
      column: data.column,
      column_type: data.column_type,
      start: first[1],
      end: last[2],
      equals: equal ? JSON.stringify({ [data.rows_by]: equal.length === 1 ? equal[0] : equal }) : null,
    });
    return link;
  }

  function mark() {
    cells.forEach((element) => element.removeAttribute("aria-selected"));
    if (selected) {
      for (let number = selected.from; number <= selected.to; number += 1) {
        cells.get(`${selected.row}:${number}`)?.setAttribute("aria-selected", "true");
      }
    }
  }

  function select(element, extend) {
    const cell = known(element);
    if (extend && selected && selected.row === cell.row) {
      const from = selected.anchor;
      selected = { row: cell.row, anchor: from, from: Math.min(from, cell.number), to: Math.max(from, cell.number) };
    } else {
      selected = { row: cell.row, anchor: cell.number, from: cell.number, to: cell.number };
    }
    mark();
    showSelected();
  }

  function focus(element) {
    if (!element) {
      return;
    }
    if (focused) {
      focused.tabIndex = -1;
    }
    focused = element;
    element.tabIndex = 0;
    element.focus();
  }

  function openRun(element) {
    const fact = known(element).facts.find((each) => each.run !== null);
    if (fact) {
      window.location.assign(address(place.dataset.run, { run: fact.run }));
    }
  }

  // Along the calendar a step down is a day and one to the right is a week; in bands, the next cell is to the right.
  function neighbour(element, key) {
    const row = Number(element.dataset.row);
    const number = Number(element.dataset.cell);
    const isCalendar = element.closest("table").classList.contains("calendar");
    const moves = isCalendar
      ? { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [0, 7], ArrowLeft: [0, -7] }
      : { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    const last = data.rows[row].cells.length - 1;
    if (key === "Home" || key === "End") {
      return cells.get(`${row}:${key === "Home" ? 0 : last}`);
    }
    if (key === "PageUp" || key === "PageDown") {
      const far = number + (key === "PageUp" ? -30 : 30);
      return cells.get(`${row}:${Math.min(last, Math.max(0, far))}`);
    }
    const move = moves[key];
    if (move && move[0] && element.closest("table").classList.contains("yearly")) {
      // Above and below is the same week or month of another year.
      const line = move[0] > 0 ? element.parentElement.nextElementSibling : element.parentElement.previousElementSibling;
      const other = line?.children[element.cellIndex];
      return other?.dataset.cell === undefined ? undefined : other;
    }
    return move ? cells.get(`${row + move[0]}:${number + move[1]}`) : undefined;
  }

  place.addEventListener("pointerover", (event) => {
    const element = event.target.closest("[data-cell]");
    if (element) {
      showCell(known(element));
    }
  });
  place.addEventListener("pointerleave", () => {
    if (selected) {
      showSelected();
    }
  });
  place.addEventListener("focusin", (event) => {
    const element = event.target.closest("[data-cell]");
    if (element) {
      showCell(known(element));
    }
  });
  place.addEventListener("click", (event) => {
    const element = event.target.closest("[data-cell]");
    if (element) {
      focus(element);
      select(element, event.shiftKey);
    }
  });
  place.addEventListener("dblclick", (event) => {
    const element = event.target.closest("[data-cell]");
    if (element) {
      openRun(element);
    }
  });
  place.addEventListener("mousedown", (event) => {
    if (event.shiftKey) {
      event.preventDefault(); // no text is selected between the two cells
    }
  });
  place.addEventListener("keydown", (event) => {
    const element = event.target.closest("[data-cell]");
    if (!element) {
      return;
    }
    if (event.key === "Enter") {
      event.preventDefault();
      openRun(element);
    } else if (event.key === " ") {
      event.preventDefault();
      select(element, event.shiftKey);
    } else if (event.key === "Escape") {
      selected = null;
      mark();
    } else {
      const next = neighbour(element, event.key);
      if (next) {
        event.preventDefault();
        if (event.shiftKey && !selected) {
          select(element, false);
        }
        focus(next);
        if (event.shiftKey) {
          select(next, true);
        }
      }
    }
  });

  // One stop for the tabulator: the newest cell.
  const firstRow = data.rows[0].cells;
  focused = cells.get(`0:${firstRow.length - 1}`) || null;
  if (focused) {
    focused.tabIndex = 0;
  }
  grids.forEach((grid) => grid.setAttribute("aria-multiselectable", "true"));
  // The newest cells are those that one came for.
  [place, ...place.querySelectorAll(".scroll")].forEach((each) => {
    each.scrollLeft = each.scrollWidth;
  });
})();
