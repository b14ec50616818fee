// Light or dark: the setting of the system, until one is chosen.
const THEMES = ["system", "light", "dark"];

function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = { system: "◐ System", light: "○ Light", dark: "● Dark" }[name];
  byId("theme").value = name;
  byId("theme").setAttribute("aria-label", `Colours: ${name}`);
}

byId("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(byId("theme").value) + 1) % THEMES.length];
  theme(next);
  try {
    localStorage.setItem("madke-theme", next);
  } catch {
    // Without storage the choice is forgotten.
  }
});

let remembered = null;
try {
  remembered = localStorage.getItem("madke-theme");
} catch {
  remembered = null;
}
theme(THEMES.includes(remembered) ? remembered : "system");
