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

/**
 * A name of each element that it also has on the next version of the page, where others may have come or gone: what it leads
 * to and says, apart from numbers, and its place among those that do the same.
 */
function namesOf(elements) {
  const known = new Map();
  return elements.map((one) => {
    const says = (one.querySelector(':scope > summary') ?? one).textContent.replace(/\d+/g, '');
    const name = [one.tagName, one.getAttribute('href'), one.querySelector('[id]')?.id, says].join(' ');
    known.set(name, (known.get(name) ?? 0) + 1);
    return `${name} ${known.get(name)}`;
  });
}

function show(next) {
  const [old, fresh] = [place(document), place(next)];
  if (fresh === null || isBusy()) return;
  const links = [document.querySelector('.links'), next.querySelector('.links')];
  if (links[1] !== null && links[0].innerHTML !== links[1].innerHTML) links[0].replaceWith(links[1]);
  if (old.innerHTML === fresh.innerHTML) return;
  const all = (of, selector) => [...of.querySelectorAll(selector)];
  const [before, after] = [all(old, 'details'), all(fresh, 'details')];
  const opened = new Set(namesOf(before).filter((_, index) => before[index].open));
  for (const [index, name] of namesOf(after).entries()) after[index].open = opened.has(name);
  const goals = all(old, 'a, summary');
  const focused = namesOf(goals)[goals.indexOf(document.activeElement)];
  old.replaceChildren(...fresh.childNodes);
  if (focused !== undefined) {
    const goalsNow = all(old, 'a, summary');
    // What is gone leaves the focus at the beginning of the content, and not at something else.
    (goalsNow[namesOf(goalsNow).indexOf(focused)] ?? old).focus({ preventScroll: true });
  }
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
