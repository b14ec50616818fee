// A page of a run that is under way reloads itself and keeps the place. It makes no requests, so it cannot ask for news.
// An open debate is not reloaded, and neither is a page that somebody is using or that cannot be seen.

const PLACE = "madke-place";
const notice = byId("reload");

/** Reload the page; the next one takes up the view (its address), the scroll position and the open parts. */
function reloadHere() {
  const parts = [...document.querySelectorAll("details[open][id]")].map((part) => part.id);
  try {
    sessionStorage.setItem(PLACE, JSON.stringify({ top: scrollY, drawn: byId("rows").children.length, parts }));
  } catch {
    // Without storage the page starts at the top of its view.
  }
  location.reload();
}

function takePlace() {
  let place = null;
  try {
    place = JSON.parse(sessionStorage.getItem(PLACE));
    sessionStorage.removeItem(PLACE);
  } catch {
    return;
  }
  if (place === null) return;
  for (const part of place.parts) byId(part)?.setAttribute("open", "");
  if (!views.debates.hidden && place.drawn > list.drawn) draw(place.drawn - 1);
  scrollTo(0, place.top);
}

if (notice) {
  history.scrollRestoration = "manual";
  const seconds = Number(notice.dataset.seconds);
  let left = seconds;
  const used = () => (left = seconds);
  for (const kind of ["keydown", "pointerdown", "wheel", "touchmove"]) addEventListener(kind, used, { passive: true });
  notice.querySelector("button").addEventListener("click", reloadHere);
  setInterval(() => {
    const reading = !views.debate.hidden;
    notice.firstElementChild.textContent = reading
      ? "An open debate is not reloaded."
      : `This page reloads every ${seconds} seconds; your place is kept.`;
    if (reading || document.hidden) return used();
    left -= 1;
    if (left <= 0) reloadHere();
  }, 1000);
}
takePlace();
