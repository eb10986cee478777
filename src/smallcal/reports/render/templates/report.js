/* What the page does beyond being read: sort tables, show the numbers of a mark, change the
   colours, copy the command. Everything is readable without it, and it asks no server. */
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  /* Colours: the system's choice until the button is pressed; kept in the page, nowhere else. */
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const toggle = document.getElementById("theme");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  /* The button says what it does, not what is. */
  const tellTheme = () => {
    toggle.textContent = isDark() ? "Light colours" : "Dark colours";
  };
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    tellTheme();
  });
  system.addEventListener("change", tellTheme);
  tellTheme();

  /* A link into a part that is folded unfolds it. */
  const unfold = () => {
    const target = document.getElementById(location.hash.slice(1));
    const part = target?.querySelector(":scope > details");
    if (part) part.open = true;
  };
  window.addEventListener("hashchange", unfold);
  for (const link of document.querySelectorAll("nav a")) {
    link.addEventListener("click", () => window.setTimeout(unfold));
  }
  unfold();

  /* A table that is wider than the window says so; what is unfolded is measured then. */
  const measured = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      target.previousElementSibling.hidden = target.scrollWidth <= target.clientWidth + 1;
    }
  });
  for (const box of document.querySelectorAll(".scroll")) measured.observe(box);

  /* Tables: the cells carry what they are sorted by; empty cells stay last either way. */
  const collator = new Intl.Collator(undefined, { numeric: true });
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    if (!("sort" in cell.dataset)) return cell.textContent.trim();
    return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b);
  const sortBy = (head) => {
    const table = head.closest("table");
    const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const rows = Array.from(table.tBodies[0].rows, (row) => [keyOf(row, head.cellIndex), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * compare(a, b);
    });
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  for (const button of document.querySelectorAll("th > button.sort")) {
    button.addEventListener("click", () => sortBy(button.parentElement));
  }

  /* Marks: one tooltip for all of them, for the pointer and for the keyboard. */
  const tip = document.getElementById("tip");
  let shown = null;
  let leaving = 0;
  const hide = () => {
    window.clearTimeout(leaving);
    if (shown) {
      shown.removeAttribute("aria-describedby");
      shown.classList.remove("shown");
    }
    shown = null;
    tip.hidden = true;
  };
  const place = (mark) => {
    const at = mark.getBoundingClientRect();
    const wide = tip.offsetWidth;
    const high = tip.offsetHeight;
    const room = root.clientWidth - wide - 8;
    const above = at.top - high - 10;
    tip.style.left = `${Math.max(8, Math.min(room, at.left + at.width / 2 - wide / 2))}px`;
    tip.style.top = `${above < 8 ? at.bottom + 10 : above}px`;
  };
  const show = (mark) => {
    window.clearTimeout(leaving);
    if (mark === shown) return;
    hide();
    shown = mark;
    tip.textContent = mark.getAttribute("aria-label");
    tip.hidden = false;
    mark.setAttribute("aria-describedby", "tip");
    mark.classList.add("shown");
    place(mark);
  };
  /* The pointer may cross the gap to the tooltip, to read or to select its text. */
  const hideSoon = () => {
    window.clearTimeout(leaving);
    leaving = window.setTimeout(hide, 250);
  };
  tip.addEventListener("pointerenter", () => window.clearTimeout(leaving));
  tip.addEventListener("pointerleave", hideSoon);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  /* A mark that gets the focus is scrolled into view: its tooltip goes with it. */
  const follow = () => {
    if (shown && shown === document.activeElement) place(shown);
    else hide();
  };
  window.addEventListener("scroll", follow, { passive: true, capture: true });

  const REACH = 18;
  const nearest = (marks, x, y) => {
    let best = null;
    let least = REACH;
    for (const mark of marks) {
      const at = mark.getBoundingClientRect();
      const dx = Math.max(at.left - x, 0, x - at.right);
      const dy = Math.max(at.top - y, 0, y - at.bottom);
      const far = Math.hypot(dx, dy) + 1e-3 * Math.hypot(at.left + at.right - 2 * x, at.top + at.bottom - 2 * y);
      if (far < least) [best, least] = [mark, far];
    }
    return best;
  };
  const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  const destination = (series, mark, key) => {
    const line = series.findIndex((marks) => marks.includes(mark));
    const place = series[line].indexOf(mark);
    if (key === "Home") return series[line][0];
    if (key === "End") return series[line].at(-1);
    if (!(key in STEPS)) return null;
    const [down, right] = STEPS[key];
    const next = series[line + down];
    return next ? next[Math.min(place + right, next.length - 1)] : null;
  };
  for (const svg of document.querySelectorAll("figure svg")) {
    const bySeries = new Map();
    for (const mark of svg.querySelectorAll(".mark")) {
      const name = mark.dataset.series;
      bySeries.set(name, [...(bySeries.get(name) ?? []), mark]);
    }
    const series = [...bySeries.values()];
    const marks = series.flat();
    if (!marks.length) continue;
    /* The browser's own tooltip would lie over ours; the text is in aria-label as well. */
    for (const mark of marks) mark.querySelector("title")?.remove();
    svg.addEventListener("pointermove", (event) => {
      const mark = nearest(marks, event.clientX, event.clientY);
      if (mark) show(mark);
      else if (shown) hideSoon();
    });
    svg.addEventListener("pointerleave", hideSoon);
    /* Not on the SVG itself, which would make it one more stop for the Tab key. */
    const figure = svg.closest("figure");
    figure.addEventListener("focusin", (event) => {
      if (marks.includes(event.target)) show(event.target);
    });
    figure.addEventListener("focusout", hide);
    /* One stop for the Tab key in each figure; the arrow keys go from mark to mark. */
    figure.addEventListener("keydown", (event) => {
      const mark = marks.includes(event.target) && destination(series, event.target, event.key);
      if (!mark) return;
      event.preventDefault();
      event.target.setAttribute("tabindex", "-1");
      mark.setAttribute("tabindex", "0");
      mark.focus({ preventScroll: true });
    });
  }

  /* Copy the command; where the clipboard is closed to us, select it for the reader's own copy. */
  for (const button of document.querySelectorAll("button.copy")) {
    const source = document.getElementById(button.dataset.source);
    const tell = button.parentElement.querySelector("[role=status]");
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.textContent);
        tell.textContent = "Copied";
      } catch {
        window.getSelection().selectAllChildren(source);
        tell.textContent = "Selected: copy it with your keyboard";
      }
    });
  }

  /* Paper cannot be unfolded, so everything is open while it is printed. */
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = Array.from(document.querySelectorAll("details:not([open])"));
    for (const part of folded) part.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const part of folded) part.open = false;
  });
})();
