/**
 * Caches the last value until the event loop continues, so that requests that arrive together share it and later ones
 * do not.
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
