// The form of a Dag that can backfill, made from its params as Airflow tells them, and sent by Airflow's own interface.
"use strict";

(() => {
  const place = document.getElementById("backfill");
  const given = JSON.parse(place.dataset.given);
  const root = place.dataset.airflowRoot;
  const TAG = "replacewhere-backfill";
  const MOST_DAGS = 50;

  function text(tag, content, className) {
    const made = document.createElement(tag);
    if (className) {
      made.className = className;
    }
    made.append(content);
    return made;
  }

  function say(message, className = "empty") {
    const said = text("p", message, className);
    said.setAttribute("role", className.includes("bad") ? "alert" : "status");
    return said;
  }

  async function ask(path, options = {}) {
    const answer = await fetch(`${root}/api/v2/${path}`, { credentials: "same-origin", ...options });
    const value = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      const detail = typeof value.detail === "string" ? value.detail : JSON.stringify(value.detail ?? "");
      throw new Error(`Airflow answers ${answer.status}: ${detail || answer.statusText}`);
    }
    return value;
  }

  const schemaOf = (param) => param.schema ?? {};
  const typesOf = (schema) => [schema.type ?? []].flat();

  // Whether a Dag's form takes the flow: it has no list of flows, or the flow is in it.
  function knows(params) {
    if (!params.flow_name && !params.start && !params.column) {
      return false;
    }
    const flows = params.flow_name ? schemaOf(params.flow_name).enum : undefined;
    return !flows || !given.flow || flows.some((flow) => String(flow).toLowerCase() === given.flow.toLowerCase());
  }

  function spelled(schema, value) {
    return (schema.enum ?? []).find((each) => String(each).toLowerCase() === String(value).toLowerCase()) ?? value;
  }

  // What the map's range says of each param; undefined: the Dag's own value stands.
  function wanted(name, param) {
    switch (name) {
      case "flow_name":
        return given.flow ? spelled(schemaOf(param), given.flow) : undefined;
      case "column":
      case "column_type":
        return given[name] && (given.start || given.end) ? given[name] : undefined;
      case "start":
      case "end":
        return given[name] || undefined;
      case "equals":
        return given.equals ? JSON.parse(given.equals) : undefined;
      default:
        return undefined;
    }
  }

  function control(name, param) {
    const schema = schemaOf(param);
    const types = schema.type || param.value === null ? typesOf(schema) : [typeof param.value];
    const filled = wanted(name, param);
    const value = filled === undefined ? param.value : filled;
    let made;
    let read;
    if (schema.enum) {
      made = document.createElement("select");
      const values = schema.enum.includes(value) ? schema.enum : [value, ...schema.enum];
      values.forEach((each) => made.append(new Option(each === null || each === undefined ? "–" : String(each))));
      made.selectedIndex = values.indexOf(value);
      read = () => values[made.selectedIndex] ?? null;
    } else if (types.includes("boolean")) {
      made = document.createElement("input");
      made.type = "checkbox";
      made.checked = Boolean(value);
      read = () => made.checked;
    } else if (types.includes("object") || types.includes("array")) {
      made = document.createElement("textarea");
      made.rows = 2;
      made.value = value === null || value === undefined ? "" : JSON.stringify(value);
      read = () => (made.value.trim() ? JSON.parse(made.value) : null);
    } else if (types.includes("integer") || types.includes("number")) {
      made = document.createElement("input");
      made.type = "number";
      made.step = types.includes("integer") ? "1" : "any";
      if (schema.minimum !== undefined) {
        made.min = schema.minimum;
      }
      made.value = value ?? "";
      read = () => (made.value === "" ? null : Number(made.value));
    } else {
      made = document.createElement("input");
      const isDay = schema.format === "date" || (["start", "end"].includes(name) && given.column_type === "date");
      made.type = isDay ? "date" : "text";
      made.value = value ?? "";
      read = () => (made.value.trim() === "" ? null : made.value.trim());
    }
    made.id = `param-${name}`;
    made.name = name;
    return { made, read, filled: filled !== undefined };
  }

  function formOf(dag) {
    const form = text("form", "", "params");
    const readers = [];
    for (const [name, param] of Object.entries(dag.params)) {
      const { made, read, filled } = control(name, param);
      const label = text("label", schemaOf(param).title || name);
      label.htmlFor = made.id;
      const line = text("div", "", filled ? "param filled" : "param");
      line.append(label, made);
      const hint = param.description ?? schemaOf(param).description;
      if (hint) {
        const said = text("small", hint, "muted");
        said.id = `hint-${name}`;
        made.setAttribute("aria-describedby", said.id);
        line.append(said);
      }
      form.append(line);
      readers.push([name, read]);
    }
    const send = text("button", `Trigger ${dag.dag_display_name ?? dag.dag_id}`, "button primary");
    const outcome = document.createElement("div");
    if (dag.is_paused) {
      form.append(text("p", "This Dag is paused: its run waits until somebody unpauses it.", "note"));
    }
    form.append(send, outcome);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      trigger(dag, readers, send, outcome);
    });
    return form;
  }

  async function trigger(dag, readers, send, outcome) {
    const conf = {};
    for (const [name, read] of readers) {
      try {
        conf[name] = read();
      } catch (error) {
        outcome.replaceChildren(say(`${name} is no JSON: ${error.message}`, "note bad"));
        return;
      }
    }
    send.disabled = true;
    outcome.replaceChildren(say("Triggering…", "muted"));
    try {
      const run = await ask(`dags/${encodeURIComponent(dag.dag_id)}/dagRuns`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ logical_date: null, conf }),
      });
      const link = text("a", run.dag_run_id);
      link.href = `${root}/dags/${encodeURIComponent(dag.dag_id)}/runs/${encodeURIComponent(run.dag_run_id)}`;
      link.dataset.airflow = "";
      const said = say("Triggered: ", "note good");
      said.append(link, ". Its plan and, where the Dag asks, its approval are there.");
      outcome.replaceChildren(said);
    } catch (error) {
      outcome.replaceChildren(say(error.message, "note bad"));
      send.disabled = false;
    }
  }

  async function show() {
    const found = await ask(`dags?tags=${TAG}&limit=${MOST_DAGS}&order_by=dag_id`);
    const dags = [];
    for (const dag of found.dags) {
      const whole = await ask(`dags/${encodeURIComponent(dag.dag_id)}/details`);
      if (knows(whole.params ?? {})) {
        dags.push(whole);
      }
    }
    if (!dags.length) {
      const flow = given.flow ? ` for the flow ${given.flow}` : "";
      place.replaceChildren(
        say(`You may see no Dag that can do this${flow}. backfill_dag(…) makes one; any other Dag with a ` +
          `BackfillOperator is found by the tag ${TAG}.`),
      );
      const range = text("pre", JSON.stringify(given, null, 1));
      place.append(text("p", "The range, to fill in by hand:", "muted"), range);
      return;
    }
    const forms = document.createElement("div");
    const choose = document.createElement("select");
    choose.id = "dag";
    dags.forEach((dag) => choose.append(new Option(dag.dag_display_name ?? dag.dag_id, dag.dag_id)));
    const put = () => forms.replaceChildren(formOf(dags[choose.selectedIndex]));
    choose.addEventListener("change", put);
    const label = text("label", "Dag");
    label.htmlFor = choose.id;
    const line = text("div", "", "param");
    line.append(label, choose);
    place.replaceChildren(line, forms);
    put();
  }

  show().catch((error) => place.replaceChildren(say(error.message, "note bad")));
})();
