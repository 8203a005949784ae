/**
 * Remembers the last value that was made until the event loop turns: requests that arrive together share it, and it is
 * forgotten before later ones come.
 */
export function oncePerTick<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
  let last: { readonly key: Key; readonly value: Value } | undefined;
  const forget = () => {
    last = undefined;
  };
  return (key) => {
    if (last !== undefined && last.key === key) return last.value;
    if (last === undefined) setImmediate(forget);
    last = { key, value: make(key) };
    return last.value;
  };
}
