// Keeps an open page up to date. Without this file everything works, but pages do not update by themselves.
const place = (of) => of.querySelector('#main');
let isAsking = false;
let isDue = false;

const isTyped = (field) =>
  field.tagName === 'SELECT'
    ? [...field.options].some((one) => one.selected !== one.defaultSelected) && field.selectedIndex > 0
    : field.type !== 'hidden' && field.value !== field.defaultValue;

/** The page is not updated while somebody is filling in a form. */
const isBusy = () =>
  place(document).querySelector('form :focus') !== null ||
  [...place(document).querySelectorAll('input, select, textarea')].some(isTyped);

/** The page as a document, so that no text of it becomes markup. Undefined if it redirects to another page. */
const pageOfNow = () =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open('GET', location.href);
    request.responseType = 'document';
    request.onload = () =>
      resolve(request.responseURL === location.href.split('#')[0] ? request.response : undefined);
    request.onerror = reject;
    request.send();
  });

function show(next) {
  const [old, fresh] = [place(document), place(next)];
  if (fresh === null || isBusy()) return;
  const links = [document.querySelector('.links'), next.querySelector('.links')];
  if (links[1] !== null && links[0].innerHTML !== links[1].innerHTML) links[0].replaceWith(links[1]);
  if (old.innerHTML === fresh.innerHTML) return;
  const opened = [...old.querySelectorAll('details')].map((one) => one.open);
  for (const [index, one] of [...fresh.querySelectorAll('details')].entries()) one.open = opened[index] ?? false;
  const goals = 'a, button, summary';
  const focused = [...old.querySelectorAll(goals)].indexOf(document.activeElement);
  old.replaceChildren(...fresh.childNodes);
  if (focused >= 0) [...old.querySelectorAll(goals)][focused]?.focus({ preventScroll: true });
  document.title = next.title;
}

async function renew() {
  isDue = true;
  if (isAsking || isBusy()) return;
  isAsking = true;
  try {
    while (isDue) {
      isDue = false;
      const next = await pageOfNow();
      if (next !== undefined) show(next);
    }
  } finally {
    isAsking = false;
  }
}

/** Milliseconds after which a refused stream is requested again, which a browser does not do by itself. */
const AGAIN_MS = 15_000;
let stream;
let again;
/** A browser has six connections to the console, so a hidden page uses none. */
function listen() {
  stream?.close();
  clearTimeout(again);
  if (document.hidden) return;
  stream = new EventSource(`/live?page=${encodeURIComponent(location.pathname)}`);
  // Changes before the stream opened are not reported, so the page is requested once.
  stream.onopen = renew;
  stream.onerror = () => {
    // The console or its API server is unavailable, or this person has too many pages open, which is temporary.
    if (stream.readyState === EventSource.CLOSED) again = setTimeout(listen, AGAIN_MS);
  };
  stream.addEventListener('changed', renew);
}
document.addEventListener('visibilitychange', listen);
document.addEventListener('focusout', () => isDue && setTimeout(renew));
addEventListener('pagehide', () => {
  stream?.close();
  clearTimeout(again);
});
listen();
