/**
 * The last that was made, for whoever asks for the same before this turn of the event loop has ended: requests that
 * come together share it, and nothing of it waits for those that come later.
 */
export function sharedInTurn<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
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
