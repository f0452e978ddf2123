// Dark or light, as Airflow's own pages are: they keep the choice where this page, of the same origin, can read it.
"use strict";

(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return window.localStorage.getItem("theme");
    } catch {
      return null; // storage is switched off
    }
  }

  function apply() {
    const theme = chosen();
    const isDark = theme === "dark" || (theme !== "light" && dark.matches);
    document.documentElement.dataset.theme = isDark ? "dark" : "light";
  }

  apply();
  dark.addEventListener("change", apply);
  window.addEventListener("storage", (event) => {
    if (event.key === "theme" || event.key === null) {
      apply();
    }
  });
  if (window.parent !== window) {
    document.documentElement.classList.add("framed");
  }
})();
